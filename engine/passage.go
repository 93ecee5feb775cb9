package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"golang.org/x/text/unicode/norm"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/internal/seal"
)

// Limits of a principal, so that every call has a record that the log takes.
const (
	maxChain  = 8  // principals that one call may act for
	maxRoles  = 64 // roles of one principal
	maxClaims = 64 << 10
)

// passage is one call on its way down the road. It belongs to one goroutine.
type passage struct {
	e       *Engine
	id      string
	at      time.Time // pinned: policy, limits and the record see one instant
	call    call.Call
	owner   string // digest of the principal
	session string // id, the caller's or the one that the principal always has
	known   bool   // the session is the principal's, and not a word that somebody made up
	tool    *Tool  // nil: no tool has that name
	outside bool   // the caller runs the tool
	away    bool   // another engine does
	leave   func() // gives the place in the log's queue back; nil until there is a grant

	// Known after arrive.
	keyless  bool // there is no key for its digests: its refusal is recorded without them
	stranger bool // the principal is malformed: nothing of it may be recorded
	args     call.Args
	facts    call.Facts
	asserted call.Asserted
	depends  []call.Precondition // the digests of files once policy lets the call read them

	// Known after decide.
	caps     call.Caps
	decision call.Decision
	version  int64     // of the session that policy saw
	plan     call.Plan // likewise
	ends     time.Time // when the session does; zero: never

	travels  *call.RecordGrant // it is decided here and runs elsewhere, or the other way round
	startErr error             // why the run could not start

	// Known after admit.
	reserved []reservation
	change   call.Change
	denial   Denial // filled in on the way, for the refusal
	// settled is to be called once it is recorded what the call does to a question;
	// nil for none.
	settled func()

	index int64 // of the decision record; -1 before it is durable

	planner *planner // nil: the run has no plan

	// Known after the run.
	reported  map[string]int64 // what the tool says that it used, by name
	measured  bool             // so is the next one
	httpBytes int64
}

func (e *Engine) passage(c call.Call) *passage {
	c.Principal = clonePrincipal(c.Principal) // the caller may change theirs at any time
	p := &passage{
		e: e, id: rand.Text(), at: e.o.Now().UTC(), call: c, owner: principalDigest(c.Principal, ""),
		session: c.Session, tool: e.tool(c.Tool), index: -1,
	}
	if p.session == "" {
		p.session, p.known = "s-"+principalDigest(c.Principal, c.Client), true
	}
	return p
}

// clonePrincipal copies p. Whoever says nothing of how they know it only asserts it.
func clonePrincipal(p call.Principal) call.Principal {
	if p.Auth.Method == "" {
		p.Auth.Method = "asserted"
	}
	p.Roles, p.Claims, p.OnBehalfOf = slices.Clone(p.Roles), maps.Clone(p.Claims), slices.Clone(p.OnBehalfOf)
	for name, value := range p.Claims {
		p.Claims[name] = slices.Clone(value)
	}
	for i, o := range p.OnBehalfOf {
		p.OnBehalfOf[i] = clonePrincipal(o)
	}
	return p
}

// arrive makes the arguments canonical and checks all that needs no policy.
func (p *passage) arrive(ctx context.Context) error {
	if err := checkPrincipal(p.call.Principal, true); err != nil {
		p.stranger = true
		return &call.Error{Code: call.CodePrincipalInvalid, Detail: err.Error()}
	}
	// Without the key of its digests no call can be recorded, and only those of one
	// tenant and day need this one.
	if _, err := p.e.o.Salts.Key(p.call.Principal.Tenant, p.at); err != nil {
		p.keyless = true
		return &call.Error{Code: call.CodeStateUnavailable, Err: err}
	}
	if err := p.tooOften(); err != nil {
		return err
	}
	if !printable(p.call.Client) {
		return &call.Error{Code: call.CodePrincipalInvalid, Detail: "the client's name is not plain text of at most 256 bytes"}
	}
	raw := p.call.Args
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	args, err := call.Canonical(raw)
	if err != nil {
		return err
	}
	p.args = args
	if p.asserted, err = parseAsserted(p.call.Asserted); err != nil {
		return err
	}
	if p.tool == nil {
		return &call.Error{Code: call.CodeToolUnknown}
	}
	if (p.tool.manifest.Kind == kindExternal) != p.outside {
		return &call.Error{Code: call.CodeToolKind}
	}
	if err := p.current(ctx); err != nil {
		return err
	}
	if err := p.unstuck(); err != nil {
		return err
	}
	if err := p.tool.manifest.Check(args); err != nil {
		return err
	}
	facts, args, err := p.tool.manifest.Derive(args)
	if err != nil {
		return err
	}
	p.facts, p.args = facts, args // URLs and paths in them are canonical now
	p.depends, err = p.tool.manifest.DependsOn(args)
	return err
}

func parseAsserted(raw []byte) (call.Asserted, error) {
	if len(raw) == 0 {
		return call.Asserted{}, nil
	}
	c, err := call.Canonical(raw)
	if err != nil {
		return call.Asserted{}, &call.Error{Code: call.CodeAssertedInvalid, Err: err}
	}
	var a call.Asserted
	if err := json.Unmarshal(c.Bytes(), &a, json.RejectUnknownMembers(true)); err != nil {
		return call.Asserted{}, &call.Error{Code: call.CodeAssertedInvalid, Err: err}
	}
	return a, nil
}

func checkPrincipal(p call.Principal, chain bool) error {
	if !printable(p.ID) || p.ID == "" || strings.TrimSpace(p.ID) != p.ID || !norm.NFC.IsNormalString(p.ID) {
		return errors.New("no id, or one that another could look like: spaces around it, or text that is not in Unicode's form C")
	}
	if !slices.Contains([]string{"agent", "user", "service"}, p.Kind) {
		return errors.New("kind is not agent, user or service")
	}
	if !slices.Contains([]string{"jwt", "mtls", "uid", "token", "asserted"}, p.Auth.Method) {
		return errors.New("auth method is not jwt, mtls, uid, token or asserted")
	}
	if strings.HasPrefix(p.ID, "uid:") && p.Auth.Method != "uid" && p.Auth.Method != "asserted" {
		// Policies name users of the operating system so, and people who approve.
		return errors.New("an id of a user of the operating system, by another's word than its own")
	}
	if len(p.Roles) > maxRoles {
		return errors.New("more than 64 roles")
	}
	for _, s := range slices.Concat(p.Roles, []string{p.Tenant, p.Auth.Method, p.Auth.Issuer}) {
		if !printable(s) {
			return errors.New("a role, tenant or auth field is not plain text of at most 256 bytes")
		}
	}
	if len(p.OnBehalfOf) > 0 && !chain || len(p.OnBehalfOf) > maxChain {
		return errors.New("on_behalf_of is nested or too long")
	}
	for _, o := range p.OnBehalfOf {
		if err := checkPrincipal(o, false); err != nil {
			return errors.New("on_behalf_of: " + err.Error())
		}
	}
	size := 0
	for name, value := range p.Claims {
		size += len(name) + len(value)
	}
	if size > maxClaims {
		return errors.New("claims of more than 64 KiB")
	}
	if _, err := json.Marshal(p.Claims); err != nil {
		return errors.New("claims are not JSON")
	}
	return nil
}

// printable is what may stand in a record as it is.
func printable(s string) bool { return len(s) <= 256 && plain(s) }

// plain is text that a terminal shows and does not obey.
func plain(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// terms are what the grant for this call says.
func (p *passage) terms() seal.Terms {
	return seal.Terms{
		Call: p.id, Principal: p.call.Principal.ID, Tool: p.tool.manifest.Name, ToolDigest: p.tool.digest,
		Args: p.args, Caps: p.caps, Policy: p.decision.Revisions, Index: p.index, Expires: p.e.o.Now().Add(grantLife),
		Preconditions: p.depends,
	}
}

// grantLife is how long a grant may wait to be spent. The run that it starts
// has a bound of its own.
const grantLife = time.Minute
