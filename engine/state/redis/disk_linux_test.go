package redis_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callgate/callgate/engine/state"
	"github.com/callgate/callgate/engine/state/redis/redistest"
)

// A server that can write no more ends in the middle of what it writes. What it
// acknowledged is there when it comes back, and what it did not is given back.
func TestServerDiskIsFull(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, options(srv))
	bytes := unix.Rlimit{Cur: 40_000, Max: 40_000} // of one file
	if err := unix.Prlimit(srv.Process().Pid, unix.RLIMIT_FSIZE, &bytes, nil); err != nil {
		t.Fatal(err)
	}
	const burst = 10_000
	one := func(id string) state.Admission {
		a := plain(id, time.Now())
		a.Charges[0].Burst = burst
		return a
	}
	admitted := int64(0)
	for ; admitted < burst; admitted++ {
		if ans, err := s.Admit(t.Context(), one(fmt.Sprint("C", admitted))); err != nil || !ans.Admitted {
			break
		}
	}
	if admitted == 0 || admitted == burst {
		t.Fatalf("%d calls were admitted", admitted)
	}
	srv.Kill() // it has ended
	srv.Run(t)
	eventually(t, "the server never comes back", func() bool {
		a := one("peek")
		a.Peek = true
		ans, err := s.Admit(t.Context(), a)
		return err == nil && len(ans.Limits) == 1 && ans.Limits[0].Remaining == burst-admitted-1
	})
	if ans := admit(t, s, one("D")); !ans.Admitted {
		t.Errorf("%+v", ans)
	}
}
