package call

import "errors"

// Code is the engine's word for why a call was refused or how a run ended. The
// table below is closed: a code keeps its meaning for ever. Policies have codes
// of their own, in [Reason], and cannot shadow these.
type Code string

// The codes, by station of the road.
const (
	// At the door: before any policy is asked.
	CodeEngineClosed       Code = "engine_closed"
	CodeOverloaded         Code = "overloaded"
	CodeRequestInvalid     Code = "request_invalid"
	CodeOwnerConfigDiffers Code = "owner_config_differs"
	CodePrincipalInvalid   Code = "principal_invalid"
	CodeSessionInvalid     Code = "session_invalid"
	CodeArgsTooLarge       Code = "args_too_large"
	CodeArgsInvalid        Code = "args_invalid"
	CodeArgsInexact        Code = "args_inexact"
	CodeAssertedInvalid    Code = "asserted_invalid"
	CodeToolUnknown        Code = "tool_unknown"
	CodeToolChanged        Code = "tool_changed"
	CodeArgsSchema         Code = "args_schema"
	CodeFactsUnparsable    Code = "facts_unparsable"
	CodeToolKind           Code = "tool_kind"
	CodeToolStuck          Code = "tool_stuck"
	CodeRefusedTooOften    Code = "refused_too_often"
	CodeGrantInvalid       Code = "grant_invalid"
	CodeGrantUnavailable   Code = "grant_unavailable"

	// The decision.
	CodePolicyDenied          Code = "policy_denied"
	CodePolicyUndefined       Code = "policy_undefined"
	CodePolicyError           Code = "policy_error"
	CodePolicyShape           Code = "policy_shape"
	CodePolicyTimeout         Code = "policy_timeout"
	CodePolicyStale           Code = "policy_stale"
	CodeObligationUnsupported Code = "obligation_unsupported"
	CodeCapsTooMany           Code = "caps_too_many"
	CodeCapsInvalid           Code = "caps_invalid"

	// What the call depends on.
	CodePreconditionUnavailable Code = "precondition_unavailable"

	// Admission.
	CodeRevoked          Code = "revoked"
	CodeRequiresApproval Code = "requires_approval"
	CodeApprovalDenied   Code = "approval_denied"
	CodeApprovalStale    Code = "approval_stale"
	CodeApprovalsTooMany Code = "approvals_too_many"
	CodeRateLimited      Code = "rate_limited"
	CodeLimitKeys        Code = "limit_keys"
	CodeGrantSpent       Code = "grant_spent"
	CodeSessionChanged   Code = "session_changed"
	CodeStateUnavailable Code = "state_unavailable"

	// The record.
	CodeLogUnavailable     Code = "log_unavailable"
	CodeAdmittedUnrecorded Code = "admitted_unrecorded"
	CodeWitnessUnavailable Code = "witness_unavailable"

	// The run: it could not start.
	CodeGuestUnavailable     Code = "guest_unavailable"
	CodeRootUnavailable      Code = "root_unavailable"
	CodeSecretUnavailable    Code = "secret_unavailable"
	CodePathIsLink           Code = "path_is_link"
	CodeExecUnconfined       Code = "exec_unconfined"
	CodeWorkspaceUnavailable Code = "workspace_unavailable"
	CodeGrantMismatch        Code = "grant_mismatch"
	CodeMemoryMinimum        Code = "memory_minimum"
	CodeMemoryCeiling        Code = "memory_ceiling"

	// The run: how it ended.
	CodeOK             Code = "ok"
	CodeToolError      Code = "tool_error"
	CodeGuestTrap      Code = "guest_trap"
	CodeTimeExceeded   Code = "time_exceeded"
	CodeAbandoned      Code = "abandoned"
	CodeFuelExhausted  Code = "fuel_exhausted"
	CodeStackExhausted Code = "stack_exhausted"
	CodeOutputExceeded Code = "output_exceeded"
	CodeCancelled      Code = "cancelled"
	CodeUnfinished     Code = "unfinished"
	CodeInternal       Code = "internal_error"
)

// Class groups codes by what they mean for a caller.
type Class string

// The classes. A caller that knows only these can still act rightly.
const (
	ClassDenied      Class = "denied"      // no; asking again gives the same answer
	ClassPending     Class = "pending"     // not yet; a person must approve
	ClassLimited     Class = "limited"     // not yet; wait
	ClassUnavailable Class = "unavailable" // could not tell, so no
	ClassRan         Class = "ran"
	ClassFailed      Class = "failed" // ran, and failed or hit a bound
)

// CodeInfo describes one code.
type CodeInfo struct {
	Code    Code   `json:"code"`
	Class   Class  `json:"class"`
	Meaning string `json:"meaning"`
}

var codes = []CodeInfo{
	{CodeEngineClosed, ClassUnavailable, "the engine is closing and takes no more calls"},
	{CodeOverloaded, ClassUnavailable, "too many calls are under way"},
	{CodeRequestInvalid, ClassDenied, "the message is not a request"},
	{CodeOwnerConfigDiffers, ClassUnavailable, "the owner of the data directory runs with another configuration"},
	{CodePrincipalInvalid, ClassDenied, "the caller has no identity, or one that is malformed"},
	{CodeSessionInvalid, ClassDenied, "the session was not opened for this principal"},
	{CodeArgsTooLarge, ClassDenied, "the arguments are larger than 1 MiB"},
	{CodeArgsInvalid, ClassDenied, "the arguments are not one JSON object: bad syntax, duplicate keys, invalid UTF-8, or nested too deep"},
	{CodeArgsInexact, ClassDenied, "a number in the arguments cannot be represented exactly; send it as a string"},
	{CodeAssertedInvalid, ClassDenied, "the asserted part is not an object of justification and context"},
	{CodeToolUnknown, ClassDenied, "no such tool"},
	{CodeToolChanged, ClassUnavailable, "the tool's files are not the ones that were pinned"},
	{CodeArgsSchema, ClassDenied, "the arguments do not fit the tool's schema"},
	{CodeFactsUnparsable, ClassDenied, "a URL, path or command in the arguments is one that programs read differently"},
	{CodeToolKind, ClassDenied, "the tool is run in another way: external tools by their caller, all others by the engine"},
	{CodeToolStuck, ClassUnavailable, "as many runs of the tool go on after their end as may; it runs again once one of them ends"},
	{CodeRefusedTooOften, ClassLimited, "too many calls of the principal were refused lately"},
	{CodeGrantInvalid, ClassDenied, "the grant is not one for this executor, tool and call, or its time is over"},
	{CodeGrantUnavailable, ClassUnavailable, "grants of other processes cannot be signed or checked here"},

	{CodePolicyDenied, ClassDenied, "policy says no"},
	{CodePolicyUndefined, ClassUnavailable, "policy gave no answer"},
	{CodePolicyError, ClassUnavailable, "policy failed while it was evaluated"},
	{CodePolicyShape, ClassUnavailable, "policy gave an answer that is not a decision"},
	{CodePolicyTimeout, ClassUnavailable, "policy took too long"},
	{CodePolicyStale, ClassUnavailable, "policy could not be brought up to date for too long"},
	{CodeObligationUnsupported, ClassUnavailable, "policy asks for something that this engine cannot do"},
	{CodeCapsTooMany, ClassUnavailable, "the capabilities have too many entries"},
	{CodeCapsInvalid, ClassUnavailable, "the capabilities that policy grants are malformed"},

	{CodePreconditionUnavailable, ClassUnavailable, "a file that the call depends on cannot be read within its capabilities"},

	{CodeRevoked, ClassDenied, "the principal, the tool or the grant is revoked"},
	{CodeRequiresApproval, ClassPending, "a person must approve the call first"},
	{CodeApprovalDenied, ClassDenied, "somebody who was asked to approve the call refused it"},
	{CodeApprovalStale, ClassPending, "what was approved is not what would run now; a person must approve that"},
	{CodeApprovalsTooMany, ClassLimited, "too many calls of the principal wait for approval"},
	{CodeRateLimited, ClassLimited, "a limit is used up"},
	{CodeLimitKeys, ClassUnavailable, "a limit is in use under too many different keys"},
	{CodeGrantSpent, ClassDenied, "the grant was used before"},
	{CodeSessionChanged, ClassUnavailable, "the session kept changing while the call was decided"},
	{CodeStateUnavailable, ClassUnavailable, "limits and approvals cannot be checked"},

	{CodeLogUnavailable, ClassUnavailable, "the decision could not be recorded, so nothing ran"},
	{CodeAdmittedUnrecorded, ClassUnavailable, "the engine ended between admitting the call and recording it, so nothing ran; what it took of limits is given back"},
	{CodeWitnessUnavailable, ClassUnavailable, "the log's witnesses did not cosign the decision in time, so nothing ran"},

	{CodeGuestUnavailable, ClassUnavailable, "no sandbox is there to run the tool"},
	{CodeRootUnavailable, ClassUnavailable, "a granted directory does not exist or cannot be opened"},
	{CodeSecretUnavailable, ClassUnavailable, "a credential that the grant or the configuration names cannot be read or used"},
	{CodePathIsLink, ClassUnavailable, "a granted directory is reached through a link"},
	{CodeExecUnconfined, ClassUnavailable, "commands are granted and cannot be confined here as the operator demands"},
	{CodeWorkspaceUnavailable, ClassUnavailable, "a workspace is granted and there is no journal for it"},
	{CodeGrantMismatch, ClassUnavailable, "the grant is for another call, or is spent"},
	{CodeMemoryMinimum, ClassUnavailable, "the tool needs more memory to start than its grant allows"},
	{CodeMemoryCeiling, ClassUnavailable, "the tool's grant allows more memory than all tools together may have here"},

	{CodeOK, ClassRan, "ran and succeeded"},
	{CodeToolError, ClassFailed, "the tool ran and reported an error"},
	{CodeGuestTrap, ClassFailed, "the guest trapped"},
	{CodeTimeExceeded, ClassFailed, "the tool ran out of time and was stopped"},
	{CodeAbandoned, ClassFailed, "the tool did not end when it had to and was left to itself, without effects; what it had done by then is done"},
	{CodeFuelExhausted, ClassFailed, "the guest ran out of fuel and was stopped"},
	{CodeStackExhausted, ClassFailed, "the guest recursed too deep and was stopped"},
	{CodeOutputExceeded, ClassFailed, "the tool wrote more output than its grant allows and was stopped"},
	{CodeCancelled, ClassFailed, "the caller went away and the tool was stopped"},
	{CodeUnfinished, ClassFailed, "what the tool did is unknown: the engine ended, or nobody reported, while it was running"},
	{CodeInternal, ClassUnavailable, "a defect in the engine or a host tool; see the operator's log"},
}

// Codes returns the whole table in the order of the road.
func Codes() []CodeInfo { return append([]CodeInfo(nil), codes...) }

// Info returns the code's row. An unknown code is unavailable.
func (c Code) Info() CodeInfo {
	for _, i := range codes {
		if i.Code == c {
			return i
		}
	}
	return CodeInfo{c, ClassUnavailable, "unknown code"}
}

// Error is an error with a code. Detail may be shown to the caller, Where is for
// the operator's log: neither ever quotes arguments, results or secrets. Err may,
// so it goes where its code says that it cannot.
type Error struct {
	Code   Code
	Detail string
	Where  string // place in a policy, such as eval_builtin_error at docs.rego:7
	Err    error
}

func (e *Error) Error() string {
	s := string(e.Code)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of err, or fallback when it carries none.
func CodeOf(err error, fallback Code) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return fallback
}
