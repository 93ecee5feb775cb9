package hostfx_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/hostfx"
)

// Charges of one name add up, and stop at the largest number.
func TestCharge(t *testing.T) {
	fx := logging(t, call.Caps{})
	for _, c := range []struct {
		name  string
		units int64
	}{{"tokens", 3}, {"tokens", 4}, {"rows", 0}, {"money", math.MaxInt64}, {"money", 5}} {
		must(t, fx.Charge(c.name, c.units))
	}
	for name, units := range map[string]int64{"tokens": -1, "": 1, "fuel": 1, "output_bytes": 1, "write_bytes": 1, strings.Repeat("x", 65): 1} {
		if err := fx.Charge(name, units); err == nil {
			t.Errorf("Charge(%q, %d) is taken", name, units)
		}
	}
	fx.Close()
	if err := fx.Charge("tokens", 1); !errors.Is(err, hostfx.ErrClosed) {
		t.Errorf("after the call: %v", err)
	}
	got, sent := fx.Charged()
	if diff := cmp.Diff(map[string]int64{"tokens": 7, "rows": 0, "money": math.MaxInt64}, got); diff != "" || sent != 0 {
		t.Errorf("%d bytes, %s", sent, diff)
	}
}

func TestChargeManyNames(t *testing.T) {
	fx := logging(t, call.Caps{})
	for i := range 64 {
		must(t, fx.Charge(fmt.Sprint("c", i), 1))
	}
	if err := fx.Charge("one-more", 1); err == nil {
		t.Error("any number of names is taken")
	}
	must(t, fx.Charge("c7", 1))
}

func TestChargeConcurrently(t *testing.T) {
	fx := logging(t, call.Caps{})
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 100 {
				if err := fx.Charge("rows", 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, _ := fx.Charged(); got["rows"] != 6400 {
		t.Errorf("charged %d", got["rows"])
	}
}

// What goes over HTTP counts to and fro, whatever became of it, and never more than the
// grant allows.
func TestHTTPBytesAreMeasured(t *testing.T) {
	w := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n := 10
		if r.Method == http.MethodGet {
			n = 150
		}
		_, _ = w.Write(make([]byte, n))
	})
	caps := only()
	caps.Bounds.HTTPBytes = 100
	fx := w.open(t, caps)
	_, err := fx.HTTP(t.Context(), hostfx.Request{Method: "POST", URL: v1, Body: make([]byte, 60)})
	must(t, err)
	if _, n := fx.Charged(); n != 70 {
		t.Errorf("%d bytes, want 70", n)
	}
	if _, err := fx.HTTP(t.Context(), get(v1)); !errors.Is(err, hostfx.ErrTooLarge) {
		t.Errorf("an answer that is too large: %v", err)
	}
	if _, n := fx.Charged(); n < 70 || n > 200 {
		t.Errorf("%d bytes, of 200", n)
	}
}
