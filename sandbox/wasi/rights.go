package wasi

// rights say what a descriptor may be used for; the numbers of the bits are the
// standard's.
type rights uint64

const (
	fdDatasync rights = 1 << iota
	fdRead
	fdSeek
	fdFdstatSetFlags
	fdSync
	fdTell
	fdWrite
	fdAdvise
	fdAllocate
	pathCreateDirectory
	pathCreateFile
	pathLinkSource
	pathLinkTarget
	pathOpen
	fdReaddir
	pathReadlink
	pathRenameSource
	pathRenameTarget
	pathFilestatGet
	pathFilestatSetSize
	pathFilestatSetTimes
	fdFilestatGet
	fdFilestatSetSize
	fdFilestatSetTimes
	pathSymlink
	pathRemoveDirectory
	pathUnlinkFile
	pollFdReadwrite
	sockShutdown
	sockAccept

	allRights = sockAccept<<1 - 1
)

// What can be done at all with each kind of descriptor.
const (
	forPaths = pathCreateDirectory | pathCreateFile | pathLinkSource | pathLinkTarget | pathOpen | fdReaddir |
		pathReadlink | pathRenameSource | pathRenameTarget | pathFilestatGet | pathFilestatSetSize |
		pathFilestatSetTimes | pathSymlink | pathRemoveDirectory | pathUnlinkFile
	forBoth  = fdDatasync | fdSync | fdFdstatSetFlags | fdFilestatGet | fdFilestatSetTimes
	forDirs  = forPaths | forBoth
	forFiles = forBoth | fdRead | fdSeek | fdTell | fdWrite | fdAdvise | fdAllocate | fdFilestatSetSize | pollFdReadwrite

	// writes are the rights that a file opened for reading does not have,
	// whoever asks for them.
	writes = fdWrite | fdAllocate | fdFilestatSetSize

	forStdin  = fdRead | fdFdstatSetFlags | fdFilestatGet | pollFdReadwrite
	forStdout = fdWrite | fdFdstatSetFlags | fdFilestatGet | pollFdReadwrite | fdDatasync | fdSync
)

// kind is what a descriptor is open on. The zero value is nothing: closed.
type kind uint8

const (
	closed kind = iota
	stdin
	stdout
	stderr
	file
	folder
)

// can are the rights that apply to a kind.
func (k kind) can() rights {
	switch k {
	case stdin:
		return forStdin
	case stdout, stderr:
		return forStdout
	case file:
		return forFiles
	case folder:
		return forDirs
	}
	return 0
}

// filetype is the standard's number for it.
func (k kind) filetype() byte {
	switch k {
	case file:
		return typeRegular
	case folder:
		return typeDirectory
	}
	return typeUnknown // stdio is no terminal, and not seekable
}

// cannot is the error of doing what never applies to a kind.
func (k kind) cannot(r rights) errno {
	switch {
	case r&forPaths != 0 && k != folder:
		return notdir
	case k == folder:
		return isdir
	case k == file:
		return badf
	case r&(fdRead|fdWrite) != 0:
		return badf
	case r&(fdSeek|fdTell|fdAllocate|fdAdvise) != 0:
		return spipe
	}
	return inval
}
