package rego

import (
	"errors"
	"unicode/utf8"
)

// BundleCode is why a bundle is not let in place of the one that decides. These
// are errors of activation; no call is ever refused with one.
type BundleCode string

// The codes. A code keeps its meaning for ever.
const (
	CodeBundleUnsigned      BundleCode = "bundle_unsigned"       // there is no .signatures.json
	CodeBundleDelta         BundleCode = "bundle_delta"          // it is a delta bundle (patch.json), which cannot be signed
	CodeSignatureMalformed  BundleCode = "signature_malformed"   // .signatures.json is not one signature in OPA's form
	CodeSignatureSecond     BundleCode = "signature_second"      // there is another .signatures.json, not at the top
	CodeSignatureKeyUnknown BundleCode = "signature_key_unknown" // it names a key that we do not have
	CodeSignatureInvalid    BundleCode = "signature_invalid"     // it was not made with the key that it names
	CodeSignatureScope      BundleCode = "signature_scope"       // it is for something else
	CodeSignatureExpired    BundleCode = "signature_expired"     // its claim exp has passed
	CodeSignatureEarly      BundleCode = "signature_early"       // its claims iat or nbf are still to come
	CodeBundleTampered      BundleCode = "bundle_tampered"       // a file is not what was signed
	CodeBundleFileExtra     BundleCode = "bundle_file_extra"     // a file was not signed
	CodeBundleFileMissing   BundleCode = "bundle_file_missing"   // a file was signed and is not there
	CodeEpochMissing        BundleCode = "epoch_missing"         // the manifest has no callgate.epoch, or none that is a whole number
	CodeEpochOlder          BundleCode = "epoch_older"           // a bundle of a later epoch has decided before
	CodeEpochReused         BundleCode = "epoch_reused"          // another bundle of the same epoch has decided before
)

// BundleError is a bundle refused for its signature or its epoch.
type BundleError struct {
	Code   BundleCode
	File   string
	Detail string
	Err    error
}

func (e *BundleError) Error() string {
	s := string(e.Code) + ": " + e.File + ": " + e.Detail
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap also gives what [Places] looks for: without Detail, which may hold what
// the bundle says of itself.
func (e *BundleError) Unwrap() []error {
	out := []error{&fault{e.File, errors.New(string(e.Code))}}
	if e.Err != nil {
		out = append(out, e.Err)
	}
	return out
}

func refuse(code BundleCode, file, detail string) error {
	return &BundleError{Code: code, File: file, Detail: detail}
}

// BundleCodeOf is the code of err, or "" when it carries none.
func BundleCodeOf(err error) BundleCode {
	if e, ok := errors.AsType[*BundleError](err); ok {
		return e.Code
	}
	return ""
}

// shown cuts what a bundle says of itself to a length for errors, which quote it.
func shown(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "..."
}
