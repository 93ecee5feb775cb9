package call

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

func TestKeyed(t *testing.T) {
	key := [32]byte{1, 2, 3}
	got := Keyed(key, "c1", "args", []byte(`{}`))

	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	salt := mac(key[:], "\x00\x00\x00\x00\x00\x00\x00\x02c1")
	want := "hmac-sha256:" + hex.EncodeToString(mac(salt, "\x00\x00\x00\x00\x00\x00\x00\x04args\x00\x00\x00\x00\x00\x00\x00\x02{}"))
	if got != want {
		t.Errorf("Keyed = %s, want %s", got, want)
	}

	seen := map[string]string{got: "as it is"}
	for name, other := range map[string]string{
		"key":    Keyed([32]byte{1, 2, 4}, "c1", "args", []byte(`{}`)),
		"call":   Keyed(key, "c2", "args", []byte(`{}`)),
		"domain": Keyed(key, "c1", "path", []byte(`{}`)),
		"bytes":  Keyed(key, "c1", "args", []byte(`[]`)),
		"border": Keyed(key, "c1", "args{", []byte(`}`)),
	} {
		if seen[other] != "" {
			t.Errorf("another %s gives the same digest as %s", name, seen[other])
		}
		seen[other] = name
	}
}
