package notify

import (
	"testing"
	"time"
)

// The vector that libraries of the specification test themselves with.
func TestSignIsTheSpecifications(t *testing.T) {
	got, err := sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; err != nil || got != want {
		t.Errorf("sign = %s, %v; want %s", got, err, want)
	}
}

// A name for this machine that leads elsewhere by the time of dialling leads nowhere.
func TestOnlyLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:1": true, "[::1]:80": true, "[::ffff:127.0.0.1]:80": true,
		"10.0.0.1:80": false, "169.254.169.254:80": false, "[::]:80": false, "0.0.0.0:80": false, "[fe80::1%lo]:80": false, "x:80": false,
	} {
		if got := onlyLoopback("tcp", address, nil) == nil; got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}

func TestJitter(t *testing.T) {
	for range 1000 {
		if d := jitter(time.Second); d < time.Second/2 || d > time.Second {
			t.Fatalf("%v", d)
		}
	}
	if d := jitter(0); d != 0 {
		t.Errorf("%v", d)
	}
}
