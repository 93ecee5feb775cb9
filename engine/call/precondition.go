package call

// Absent is the digest of a file that is not there.
const Absent = "absent"

// Precondition is what must be as it was when the call was decided, or the call may
// change nothing: a file, or what an entity tag stands for on a server.
type Precondition struct {
	File   string `json:"file,omitzero"`   // /<root>/<path>
	Digest string `json:"digest,omitzero"` // of File: sha256:<hex> of its content, or [Absent]
	ETag   string `json:"etag,omitzero"`   // sent as If-Match, RFC 9110 section 13.1.1
}
