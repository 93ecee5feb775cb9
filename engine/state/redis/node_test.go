package redis_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/audit"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state/redis"
	"github.com/callgate/callgate/engine/token"
	"github.com/callgate/callgate/hostfx"
)

// nodeEnv makes the test binary a node instead.
const nodeEnv = "CALLGATE_TEST_NODE"

// nodeConfig is what a node's process is told in nodeEnv.
type nodeConfig struct {
	Name, Address, Prefix, Dir, Grants string
	Load                               bool // else it only takes what is left
}

// burst is how many limited calls there are, for all nodes together.
const burst = 400

// tally is what a node says of itself, whenever it is asked.
type tally struct {
	OK    map[string]int // by tool
	Codes map[call.Code]int
	Bad   []string // refusals without a code, and whatever else should not be
}

func manifest(name string) string {
	return "name: " + name + "\ndescription: a tool\nkind: host\nclass: read\n" +
		"input: {type: object, properties: {n: {type: number}}, required: [n], additionalProperties: false}\n"
}

type nodePolicy struct{}

// Decide limits, asks or allows, by the name of the tool.
func (nodePolicy) Decide(_ context.Context, in *call.Input) (call.Decision, error) {
	d := call.Decision{Verdict: call.Allow, Revisions: []call.Revision{{Name: "test", Digest: "sha256:0"}}}
	switch in.Tool.Name {
	case "limited":
		d.Limits = []call.Limit{{Name: "burst", Key: "all", Burst: burst, Cost: 1, Per: "8760h"}}
	case "asked":
		d.Verdict, d.Approvals = call.Ask, []call.ApprovalRule{{Name: "lead", Count: 1, From: call.From{Roles: []string{"lead"}}}}
	}
	return d, nil
}

// node is one process with an engine.
type node struct {
	nodeConfig
	e    *engine.Engine
	stop atomic.Bool

	mu    sync.Mutex // protects tally
	tally tally
}

// runNode is the process. It ends when its input does.
func runNode(config string) error {
	n := &node{tally: tally{OK: map[string]int{}, Codes: map[call.Code]int{}}}
	if err := json.Unmarshal([]byte(config), &n.nodeConfig); err != nil {
		return err
	}
	closeAll, err := n.open()
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var wg sync.WaitGroup
	if n.Load {
		for i := range 4 {
			wg.Go(func() { n.calls(i) })
		}
		wg.Go(n.votes)
		wg.Go(n.grants)
	} else {
		code := call.CodeOK
		for i := 0; i <= burst && code == call.CodeOK; i++ {
			code = n.do("limited", i)
		}
		if code != call.CodeRateLimited {
			n.noted("the rest", fmt.Errorf("ends with %s", code))
		}
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		n.mu.Lock()
		b, err := json.Marshal(n.tally)
		n.mu.Unlock()
		if err != nil {
			return err
		}
		fmt.Println(string(b))
	}
	n.stop.Store(true)
	wg.Wait()
	return closeAll()
}

func (n *node) open() (closeAll func() error, err error) {
	log, err := audit.Open(n.Dir, audit.Options{})
	if err != nil {
		return nil, err
	}
	store, err := redis.Open(context.Background(), redis.Options{Address: n.Address, Prefix: n.Prefix, Node: n.Name, MaxSkew: time.Minute})
	if err != nil {
		return nil, err
	}
	salts, err := redis.NewSalts(sharedKey)
	if err != nil {
		return nil, err
	}
	pending, err := redis.NewPending(store, sharedKey)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(sharedKey)
	signer, err := token.NewSigner(key)
	if err != nil {
		return nil, err
	}
	public := key.Public().(ed25519.PublicKey)
	issuers, err := token.NewVerifier(token.Issuer{Name: "all", Keys: token.Set{token.Thumbprint(public): public}, SharesState: true})
	if err != nil {
		return nil, err
	}
	o := engine.Options{
		Policy: nodePolicy{}, Log: log, State: store, StateSalts: salts, Pending: pending, Node: n.Name, DecideTimeout: time.Minute, MaxRefusals: 1 << 40,
		Grants: &engine.Grants{Signer: signer, Issuer: "all", Origin: "example.com/all", Issuers: issuers, Audience: "all"},
	}
	for _, name := range []string{"limited", "asked", "granted"} {
		run := func(context.Context, *hostfx.Effects, map[string]float64) (string, error) { return "ran", nil }
		o.Tools = append(o.Tools, engine.Host(manifest(name), run))
	}
	if n.e, err = engine.New(o); err != nil {
		return nil, err
	}
	return func() error { return errors.Join(n.e.Close(), store.Close(), log.Close()) }, nil
}

// noted counts what became of a call, and returns its code.
func (n *node) noted(tool string, err error) call.Code {
	n.mu.Lock()
	defer n.mu.Unlock()
	d, denied := errors.AsType[*engine.Denial](err)
	switch {
	case err == nil:
		n.tally.OK[tool]++
		return call.CodeOK
	case !denied || d.Code == "" || d.Code == call.CodeInternal || d.Code == call.CodeLogUnavailable:
		n.tally.Bad = append(n.tally.Bad, fmt.Sprintf("%s: %v", tool, err))
		return call.CodeInternal
	default:
		n.tally.Codes[d.Code]++
		return d.Code
	}
}

func (n *node) do(tool string, arg int) call.Code {
	_, err := n.e.Do(context.Background(), call.Call{
		Principal: call.Principal{ID: "alice", Kind: "agent", Tenant: "acme", Auth: call.Auth{Method: "jwt", Issuer: "https://idp.example"}},
		Tool:      tool, Args: fmt.Appendf(nil, `{"n":%d}`, arg),
	})
	return n.noted(tool, err)
}

// calls makes the calls that all nodes make.
func (n *node) calls(worker int) {
	for i := 0; !n.stop.Load(); i++ {
		if worker == 0 && i%4 == 0 {
			n.do("limited", i)
		}
		n.do("asked", i%5)
		time.Sleep(5 * time.Millisecond) // leaves some of the machine to the others
	}
}

// votes says yes to whatever is asked.
func (n *node) votes() {
	ctx := context.Background()
	lead := call.Principal{ID: "lena-" + n.Name, Kind: "user", Tenant: "acme", Roles: []string{"lead"}, Auth: call.Auth{Method: "jwt", Issuer: "https://idp.example"}}
	for !n.stop.Load() {
		list, err := n.e.Approvals(ctx)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		for _, a := range list {
			_, _ = n.e.Vote(ctx, engine.Vote{Approval: a.ID, By: lead}) // others vote too, and the server comes and goes
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// grants issues some, and tries those of all nodes, again and again.
func (n *node) grants() {
	ctx := context.Background()
	who := call.Principal{ID: "alice", Kind: "agent", Tenant: "acme", Auth: call.Auth{Method: "jwt", Issuer: "https://idp.example"}}
	for !n.stop.Load() {
		raw, err := n.e.Issue(ctx, call.Call{Principal: who, Tool: "granted", Args: []byte(`{"n":1}`)}, "all")
		if err == nil {
			name := filepath.Join(n.Grants, fmt.Sprint(time.Now().UnixNano(), "-", n.Name)) // the newest is last
			if err := os.WriteFile(name, []byte(raw), 0o600); err != nil {
				n.noted("granted", err)
			}
		} else {
			n.noted("issue", err)
		}
		files, err := os.ReadDir(n.Grants)
		if err != nil {
			n.noted("granted", err)
		}
		for _, f := range files[max(0, len(files)-6):] {
			raw, err := os.ReadFile(filepath.Join(n.Grants, f.Name()))
			if err != nil || len(raw) == 0 {
				continue // it is being written
			}
			_, err = n.e.Execute(ctx, string(raw), []byte(`{"n":1}`))
			n.noted("granted", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// record calls yield for every record of a log that nobody has open.
func records(dir string, yield func(call.Record)) error {
	log, err := audit.Open(dir, audit.Options{})
	if err != nil {
		return err
	}
	err = log.Replay(context.Background(), func(_ int64, line []byte) error {
		r, err := call.DecodeRecord(line)
		if err == nil {
			yield(r)
		}
		return err
	})
	return errors.Join(err, log.Close())
}
