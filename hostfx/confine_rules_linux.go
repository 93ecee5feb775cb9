package hostfx

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// What Landlock can refuse, by the ABI that brought it.
var landlockFiles = []struct {
	abi    int
	rights uint64
}{
	{1, unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM},
	{2, unix.LANDLOCK_ACCESS_FS_REFER}, // links and moves between directories; before, all are refused
	{3, unix.LANDLOCK_ACCESS_FS_TRUNCATE},
	{5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
}

const (
	startsPrograms = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_EXECUTE
	readsFile      = unix.LANDLOCK_ACCESS_FS_READ_FILE
	usesDevice     = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	fileRights     = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// system is what programs need to start: themselves, their libraries, and where these
// are.
var system = []struct {
	name   string
	rights uint64
}{
	{"/usr", startsPrograms}, {"/bin", startsPrograms}, {"/sbin", startsPrograms},
	{"/lib", startsPrograms}, {"/lib32", startsPrograms}, {"/lib64", startsPrograms}, {"/libx32", startsPrograms},
	{"/etc/ld.so.cache", readsFile}, {"/etc/localtime", readsFile},
	{"/dev/null", usesDevice}, {"/dev/zero", readsFile}, {"/dev/urandom", readsFile}, {"/dev/random", readsFile},
}

// landlockRights are what modes come to. Landlock cannot hold anybody to adding at the
// end, so the mode append gives nothing; nothing in a granted directory is executed;
// and links there, devices and sockets are not the command's to make.
func landlockRights(m Modes) (rights uint64) {
	if m.Read {
		rights |= unix.LANDLOCK_ACCESS_FS_READ_FILE
	}
	if m.List {
		rights |= unix.LANDLOCK_ACCESS_FS_READ_DIR
	}
	if m.Write {
		rights |= unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR
	}
	if m.Remove {
		rights |= unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR
	}
	if m.Write && m.Remove {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	return rights
}

// confineFiles leaves the granted directories, and what programs need to start.
func (o orders) confineFiles() error {
	if o.ABI == 0 {
		return nil
	}
	of := rulesetOf{signals: o.ABI >= abiScope, sockets: o.ABI >= abiScope}
	for _, f := range landlockFiles {
		if o.ABI >= f.abi {
			of.files |= f.rights
		}
	}
	if o.ABI >= abiNetwork {
		of.network = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	r, err := newRuleset(of)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range system {
		errs = append(errs, r.allowName(s.name, s.rights&of.files))
	}
	errs = append(errs, r.allow(fdCommand, (unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_EXECUTE)))
	if o.Private {
		errs = append(errs, r.allow(fdDir, unix.LANDLOCK_ACCESS_FS_READ_DIR))
	}
	if of.network != 0 {
		for _, p := range o.Ports {
			errs = append(errs, r.allowPort(p, unix.LANDLOCK_ACCESS_NET_CONNECT_TCP))
		}
	}
	for i, rights := range o.Granted {
		if rights &= of.files; rights != 0 { // no rights at all make no rule
			errs = append(errs, r.allow(fdGranted+i, rights))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return r.restrict()
}

// allowName allows what the system has by a name, if it has it.
func (r ruleset) allowName(name string, rights uint64) error {
	fd, err := unix.Open(name, pathOnly, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	i, err := statFD(fd)
	if err != nil {
		return err
	}
	if !i.IsDir() {
		rights &= fileRights
	}
	return r.allow(fd, rights)
}

func (o orders) confineCalls() error {
	if !o.Filter {
		return nil
	}
	return filterCalls(filterProgram(len(o.Ports) > 0))
}
