package redis_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state/redis/redistest"
)

// process is a node's process as the test sees it.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startNode(t *testing.T, c nodeConfig) *process {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), nodeEnv+"="+string(config))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, 16<<20)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() }) // it has ended, as a rule
	if !p.out.Scan() || p.out.Text() != "ready" {
		t.Fatalf("node %s does not start: %q", c.Name, p.out.Text())
	}
	return p
}

// tally asks the node what it did so far.
func (p *process) tally() (out tally) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in); err != nil {
		p.t.Fatal(err)
	}
	if !p.out.Scan() {
		p.t.Fatal("a node ended")
	}
	if err := json.Unmarshal(p.out.Bytes(), &out); err != nil {
		p.t.Fatal(err)
	}
	return out
}

// end lets the node finish.
func (p *process) end() tally {
	p.t.Helper()
	out := p.tally()
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("a node ended: %v", err)
	}
	return out
}

// more waits until every node did more of what count counts than when it was called.
func more(t *testing.T, what string, nodes []*process, count func(tally) int) {
	t.Helper()
	before := make([]int, len(nodes))
	for i, p := range nodes {
		before[i] = count(p.tally())
	}
	eventually(t, what, func() bool {
		for i, p := range nodes {
			if count(p.tally()) <= before[i] {
				return false
			}
		}
		return true
	})
}

// granted is how many grants the nodes used, all together.
func granted(nodes []*process) (n int) {
	for _, p := range nodes {
		n += p.tally().OK["granted"]
	}
	return n
}

// Three nodes under load, while connections are cut, one node is killed and comes back,
// and the server is killed and comes back: together they admit exactly the burst, use
// each approval and each grant once, and say of every refusal why.
func TestThreeNodes(t *testing.T) {
	srv := redistest.Start(t)
	dir := t.TempDir()
	grants := filepath.Join(dir, "grants")
	if err := os.Mkdir(grants, 0o700); err != nil {
		t.Fatal(err)
	}
	var (
		configs []nodeConfig
		proxies []*proxy
		nodes   []*process
	)
	for i := range 3 {
		proxies = append(proxies, newProxy(t, srv.Address))
		name := fmt.Sprint("n", i)
		configs = append(configs, nodeConfig{Name: name, Address: proxies[i].address, Prefix: "big", Dir: filepath.Join(dir, name), Grants: grants, Load: true})
		nodes = append(nodes, startNode(t, configs[i]))
	}
	ok := func(tool string) func(tally) int { return func(y tally) int { return y.OK[tool] } }
	progress := func(when string) {
		t.Helper()
		before := granted(nodes)
		more(t, when+": no approval is used", nodes, ok("asked"))
		eventually(t, when+": no grant is used", func() bool { return granted(nodes) > before })
	}
	unavailable := func(y tally) int { return y.Codes[call.CodeStateUnavailable] }

	progress("at first")
	for _, mode := range []int{cutAsking, cutAnswers} {
		for _, p := range proxies {
			p.set(mode, true)
		}
		progress("after connections were cut")
		proxies[0].set(mode, false)
		more(t, "nobody notices", nodes[:1], unavailable)
		proxies[0].set(pass, false)
	}
	progress("with a node that was away")

	_ = nodes[2].cmd.Process.Kill()
	_ = nodes[2].cmd.Wait() // it was killed
	more(t, "the others do not go on", nodes[:2], ok("asked"))
	if _, err := srv.Do("DEL {big}:lease:n2"); err != nil { // as some seconds do
		t.Fatal(err)
	}
	nodes[2] = startNode(t, configs[2])
	progress("after a node was killed")

	srv.Kill()
	more(t, "nobody notices that there is no server", nodes, unavailable)
	srv.Run(t)
	progress("after the server was killed")

	var sum tally
	for _, p := range nodes {
		y := p.end()
		sum.Bad = append(sum.Bad, y.Bad...)
	}
	// What is left of the burst, after everything was given back that had to be.
	last := nodeConfig{Name: "n3", Address: srv.Address, Prefix: "big", Dir: filepath.Join(dir, "n3"), Grants: grants}
	sum.Bad = append(sum.Bad, startNode(t, last).end().Bad...)
	for _, bad := range sum.Bad {
		t.Error(bad)
	}
	audited(t, append(configs, last))
}

// audited holds what the logs say together against what may be.
func audited(t *testing.T, nodes []nodeConfig) {
	t.Helper()
	allowed, consumed, spent := map[string]int{}, map[string]int{}, map[string]int{}
	for _, n := range nodes {
		err := records(n.Dir, func(r call.Record) {
			if r.Type != call.TypeDecision {
				return
			}
			if r.Code == "" && (r.Grant == nil || r.Grant.Issued) {
				allowed[r.Tool.Name]++
			}
			if r.Code != "" && r.Code.Info().Class == "" {
				t.Errorf("refused with %q", r.Code)
			}
			if r.Change == nil {
				return
			}
			for _, id := range r.Change.Consumed {
				consumed[id]++
			}
			for _, s := range r.Change.Spent {
				spent[s.ID]++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if allowed["limited"] != burst {
		t.Errorf("%d calls were admitted, want exactly the burst of %d", allowed["limited"], burst)
	}
	if len(consumed) != allowed["asked"] || len(consumed) == 0 {
		t.Errorf("%d calls were admitted by %d approvals", allowed["asked"], len(consumed))
	}
	for of, uses := range map[string]map[string]int{"approval": consumed, "grant": spent} {
		for id, n := range uses {
			if n != 1 {
				t.Errorf("%s %s was used %d times", of, id, n)
			}
		}
	}
	if len(spent) == 0 {
		t.Error("no grant was used")
	}
	t.Logf("%d limited calls, %d approvals, %d grants", allowed["limited"], len(consumed), len(spent))
}
