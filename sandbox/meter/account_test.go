package meter_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/callgate/callgate/sandbox/meter"
)

func TestAccount(t *testing.T) {
	tests := []struct {
		name        string
		give        meter.Account
		fuel, stack int64
		next        int64
		want        error
	}{
		{"first slice", meter.Account{Budget: 100, Slice: 30}, -5, 1, 25, nil},
		{"middle of a slice", meter.Account{Budget: 1000, Slice: 30}, -80, 1, 10, nil},
		{"end of a slice", meter.Account{Budget: 1000, Slice: 30}, -90, 1, 30, nil},
		{"last slice", meter.Account{Budget: 100, Slice: 30}, -95, 1, 5, nil},
		{"exactly the budget", meter.Account{Budget: 100, Slice: 30}, -100, 0, 0, nil},
		{"one over", meter.Account{Budget: 100, Slice: 30}, -101, 1, 0, meter.ErrFuel},
		{"stack", meter.Account{Budget: 100}, 10, -1, 0, meter.ErrStack},
		{"both", meter.Account{}, -10, -1, 0, meter.ErrStack},
		{"zero", meter.Account{}, -1, 1, 0, meter.ErrFuel},
		{"default slice", meter.Account{Budget: 1 << 40}, -1, 1, meter.DefaultSlice - 1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next, err := tt.give.Yield(tt.fuel, tt.stack)
			if next != tt.next || !errors.Is(err, tt.want) {
				t.Errorf("Yield(%d, %d) = %d, %v, want %d, %v", tt.fuel, tt.stack, next, err, tt.next, tt.want)
			}
		})
	}
}

// However a run burns its fuel, the account adds it up, and stops the run at the
// first charge over the budget.
func TestAccountAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := meter.Account{Budget: rapid.Int64Range(0, 1e6).Draw(t, "budget"), Slice: rapid.Int64Range(0, 1e5).Draw(t, "slice")}
		var fuel, burned int64
		for _, cost := range rapid.SliceOf(rapid.Int64Range(1, 1e5)).Draw(t, "costs") {
			burned += cost
			fuel -= cost
			if fuel >= 0 {
				continue
			}
			next, err := a.Yield(fuel, 1)
			if (err != nil) != (burned > a.Budget) {
				t.Fatalf("burned %d of %d: %v", burned, a.Budget, err)
			}
			if err != nil {
				return
			}
			fuel = next
			if a.Used(fuel) != burned {
				t.Fatalf("account says %d used, burned %d", a.Used(fuel), burned)
			}
		}
		if burned > a.Budget {
			t.Fatalf("burned %d of %d and was not stopped", burned, a.Budget)
		}
	})
}

func ExampleAccount() {
	a := meter.Account{Budget: 1500, Slice: 1000}
	fmt.Println(a.Yield(-1, 1))  // before the first instruction
	fmt.Println(a.Yield(-10, 1)) // the first slice is used up
	fmt.Println(a.Yield(-20, 1)) // and the rest
	fmt.Println("used", a.Used(-20))
	// Output:
	// 999 <nil>
	// 490 <nil>
	// 0 out of fuel
	// used 1520
}
