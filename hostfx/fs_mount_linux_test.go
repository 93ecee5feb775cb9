package hostfx_test

import (
	"strings"
	"testing"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// The links of /proc that lead anywhere lead nowhere, and devices do not open, with
// grants of these directories themselves.
func TestMagicLinksAndDevices(t *testing.T) { both(t, testMagicLinksAndDevices) }

func testMagicLinksAndDevices(t *testing.T) {
	h, err := newHost(hostfx.Options{Roots: []hostfx.Root{{Name: "proc", Path: "/proc"}, {Name: "dev", Path: "/dev"}, {Name: "top", Path: "/"}}})
	must(t, err)
	defer h.Close()
	fx, err := h.Open(t.Context(), mint(t, call.Caps{FS: []call.FS{
		{Root: "proc", Path: ".", Modes: []string{"read", "list"}}, {Root: "dev", Path: ".", Modes: all}, {Root: "top", Path: ".", Modes: []string{"read", "list"}},
	}}))
	must(t, err)
	defer fx.Close()
	for _, name := range []string{
		"/proc/self/root/etc/passwd", "/proc/self/cwd/fs_attack_test.go", "/proc/self/exe", "/proc/self/fd/0", "/proc/thread-self/root/etc/passwd",
		"/proc/self/task/../root/etc/passwd", "/proc/1/root/etc/passwd",
	} {
		if b, err := fx.ReadFile(name); err == nil {
			t.Errorf("%s has %d bytes", name, len(b))
		}
	}
	if b, err := fx.ReadFile("/proc/self/status"); err != nil || !strings.HasPrefix(string(b), "Name:") {
		t.Errorf("/proc/self/status is %q, %v", b, err)
	}
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/tty", "/dev/random"} {
		if _, err := fx.OpenRead(name); refusal(err) != "not granted" {
			t.Errorf("reading %s: %v", name, err)
		}
		if _, err := fx.OpenWrite(name); refusal(err) != "not granted" {
			t.Errorf("writing %s: %v", name, err)
		}
		if _, err := fx.OpenAppend(name); refusal(err) != "not granted" {
			t.Errorf("appending to %s: %v", name, err)
		}
	}
	// What is mounted below a granted directory is not in it, where the system can tell.
	_, err = fx.ReadFile("/top/proc/self/status")
	if !portable && hostfx.KernelResolves() {
		if refusal(err) != "not granted" {
			t.Errorf("across a mount: %v", err)
		}
	}
	if _, err := fx.ReadFile("/top/etc/passwd"); err != nil {
		t.Errorf("not across one: %v", err)
	}
}
