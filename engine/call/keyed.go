package call

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// Keyed returns hmac-sha256:<hex> of b under a salt that is derived from key and
// the call id. Domain says what b is, so that one text has different digests as
// an argument and as a path. Whoever lacks the key cannot guess b from it, and
// deleting the key makes it meaningless for ever.
//
// The salt is HMAC-SHA256(key, frame(callID)); the digest is HMAC-SHA256(salt,
// frame(domain) || frame(b)); frame writes the length as eight bytes, big endian,
// and then the bytes.
func Keyed(key [32]byte, callID, domain string, b []byte) string {
	salt := hmac.New(sha256.New, key[:])
	frame(salt, []byte(callID))
	h := hmac.New(sha256.New, salt.Sum(nil))
	frame(h, []byte(domain))
	frame(h, b)
	return "hmac-sha256:" + hex.EncodeToString(h.Sum(nil))
}

func frame(h hash.Hash, b []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(b)))
	h.Write(n[:])
	h.Write(b)
}
