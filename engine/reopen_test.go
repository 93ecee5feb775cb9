package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/callgate/callgate/engine"
	"github.com/callgate/callgate/engine/call"
	"github.com/callgate/callgate/engine/state"
)

// outliving is a store that outlives the engine, and says what the test wants of its
// log.
type outliving struct {
	*state.Local
	mark     state.Mark
	fail     error
	recovery state.Recovery
	settled  []string
	released []string
}

func (o *outliving) Begin(context.Context) (state.Mark, error) { return o.mark, nil }

func (o *outliving) Recover(_ context.Context, r state.Recovery) (released []string, err error) {
	o.recovery = r
	for _, id := range o.mark.Open {
		if _, ok := r.Recorded[id]; !ok {
			released = append(released, id)
		}
	}
	return released, o.fail
}

func (o *outliving) Settle(id string, index int64) {
	o.settled = append(o.settled, id)
	o.Local.Settle(id, index)
}

func (o *outliving) Release(ctx context.Context, id string) error {
	o.released = append(o.released, id)
	return o.Local.Release(ctx, id)
}

// reopened is an engine on a log with these records, and what its store remembers.
func reopened(t *testing.T, s *outliving, recs ...call.Record) (*memory, error) {
	t.Helper()
	log := &memory{}
	for _, r := range recs {
		r.Time = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		line, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		log.records = append(log.records, line)
	}
	tool := &counted{}
	e, err := engine.New(engine.Options{Policy: always(allow), Log: log, State: s, Tools: []engine.Tool{tool.tool()}, Node: "n"})
	if err == nil {
		t.Cleanup(func() { e.Close() })
	}
	return log, err
}

// What the engine tells a store that outlived it is what its log says, and the log
// says afterwards what came of the calls that it lacked.
func TestReopenWithALastingState(t *testing.T) {
	allowed := func(id string) call.Record {
		return call.Record{Type: call.TypeDecision, Call: id, Verdict: call.Allow}
	}
	refused := func(id string) call.Record {
		return call.Record{Type: call.TypeDecision, Call: id, Code: call.CodeStateUnavailable}
	}
	ended := func(of int64) call.Record {
		return call.Record{Type: call.TypeOutcome, Decision: &of, Code: call.CodeOK, Outcome: &call.RecordOutcome{Status: call.Succeeded}}
	}
	revoked := func(r call.Revocation) call.Record {
		return call.Record{Type: call.TypeRevoke, Change: &call.Change{Revoked: &r}}
	}
	labels := func(session string, version int64, l call.Times) call.Record {
		r := allowed("L")
		r.Change = &call.Change{Session: &call.SessionChange{ID: session, Version: version, Labels: l}}
		return r
	}
	session := func(c call.SessionChange) call.Record {
		r := ended(0)
		r.Decision, r.Change = nil, &call.Change{Session: &c}
		return r
	}
	plan := call.Plan{{ID: "t", Status: call.TaskActive}}.Clone()
	late := time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	issued, elsewhere := allowed("I"), allowed("E")
	issued.Grant, elsewhere.Grant = &call.RecordGrant{ID: "gr", Issued: true}, &call.RecordGrant{ID: "gr"}
	none := map[string]int64{}
	for _, tt := range []struct {
		name string
		mark state.Mark
		recs []call.Record
		want state.Recovery
		lack []string // calls that the log says of that they were not recorded
	}{
		{"nothing anywhere", state.Mark{Index: -1}, nil, state.Recovery{Recorded: none}, nil},
		{"all is settled", state.Mark{Index: 0}, []call.Record{allowed("A"), ended(0)}, state.Recovery{Size: 2, Recorded: none}, nil},
		{
			"recorded, not settled", state.Mark{Index: -1, Open: []string{"A"}}, []call.Record{allowed("A"), ended(0)},
			state.Recovery{Size: 2, Recorded: map[string]int64{"A": 0}}, nil,
		},
		{"not recorded", state.Mark{Index: -1, Open: []string{"A"}}, []call.Record{refused("B")}, state.Recovery{Size: 1, Recorded: none}, []string{"A"}},
		{"refused in doubt", state.Mark{Index: -1, Open: []string{"A"}}, []call.Record{refused("A")}, state.Recovery{Size: 1, Recorded: none}, nil},
		{
			"the state was restored from before", state.Mark{Index: 0}, []call.Record{allowed("A"), ended(0), allowed("B"), ended(2)},
			state.Recovery{Size: 4, Recorded: none, Lost: true}, nil,
		},
		{"the state is gone", state.Mark{Index: -1}, []call.Record{allowed("A"), ended(0)}, state.Recovery{Size: 2, Recorded: none, Lost: true}, nil},
		{"issued, and lost", state.Mark{Index: -1}, []call.Record{issued}, state.Recovery{Size: 1, Recorded: none, Lost: true}, nil},
		{"admitted by another engine", state.Mark{Index: -1}, []call.Record{elsewhere, ended(0)}, state.Recovery{Size: 2, Recorded: none}, nil},
		{
			"labels hold", state.Mark{Index: 9},
			[]call.Record{labels("b", 1, call.Times{"x": late, "over": 1}), labels("a", 1, call.Times{"x": late}), labels("b", 2, call.Times{"x": late - 1, "y": late}), labels("c", 1, call.Times{"over": 1})},
			state.Recovery{Size: 8, Recorded: none, Sessions: []call.SessionChange{
				{ID: "a", Version: 1, Labels: call.Times{"x": late}}, {ID: "b", Version: 2, Labels: call.Times{"x": late, "y": late}},
			}}, nil,
		},
		{
			"plans and ends hold", state.Mark{Index: 9},
			[]call.Record{
				session(call.SessionChange{ID: "a", Version: 2, Plan: plan, PlanVersion: 2, PlanUntil: late}),
				session(call.SessionChange{ID: "a", Version: 1, Plan: plan[:0], PlanVersion: 1, PlanUntil: late}),
				session(call.SessionChange{ID: "b", Version: 1, Plan: plan, PlanVersion: 1, PlanUntil: 1}),
				session(call.SessionChange{ID: "c", Owner: "p", Until: late, Ended: true}), session(call.SessionChange{ID: "d", Owner: "p", Until: 1, Ended: true}),
			},
			state.Recovery{Size: 5, Recorded: none, Sessions: []call.SessionChange{
				{ID: "a", Version: 2, Plan: plan, PlanVersion: 2, PlanUntil: late}, {ID: "c", Owner: "p", Until: late, Ended: true},
			}}, nil,
		},
		{
			"revocations hold", state.Mark{Index: -1},
			[]call.Record{revoked(call.Revocation{Tool: "rm"}), revoked(call.Revocation{Epoch: 3})},
			state.Recovery{Size: 2, Recorded: none, Revoked: []call.Revocation{{Tool: "rm"}, {Epoch: 3}}}, nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &outliving{Local: state.NewLocal(), mark: tt.mark}
			recs := tt.recs
			if tt.name == "labels hold" { // each with its outcome
				recs = nil
				for i, r := range tt.recs {
					recs = append(recs, r, ended(int64(2*i)))
				}
			}
			log, err := reopened(t, s, recs...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, s.recovery); diff != "" {
				t.Error(diff)
			}
			var lack []string
			for _, r := range log.decoded(t)[len(recs):] {
				if r.Code == call.CodeAdmittedUnrecorded && r.Decision == nil && r.Outcome.Status == call.NotStarted {
					lack = append(lack, r.Call)
				}
			}
			if diff := cmp.Diff(tt.lack, lack); diff != "" {
				t.Error(diff)
			}
			again, err := reopened(t, &outliving{Local: state.NewLocal(), mark: tt.mark}, log.decoded(t)...)
			if err != nil || len(again.records) != len(log.records) {
				t.Errorf("the next start: %d records more, %v", len(again.records)-len(log.records), err)
			}
		})
	}
}

// An engine whose log lost records does not start, and says why.
func TestReopenBehindTheState(t *testing.T) {
	_, err := reopened(t, &outliving{Local: state.NewLocal(), mark: state.Mark{Index: 7}, fail: state.ErrLogBehind})
	if !errors.Is(err, state.ErrLogBehind) {
		t.Errorf("New = %v, want %v", err, state.ErrLogBehind)
	}
}

// What a call took of a store that outlives the engine is given back when its record
// cannot be written, and settled when it is.
func TestUnrecordedIsGivenBack(t *testing.T) {
	for _, tt := range []struct {
		fail              error
		code              call.Code
		settled, released int
	}{
		{nil, "", 1, 0},
		{errors.New("disk full"), call.CodeLogUnavailable, 0, 1},
	} {
		s, tool := &outliving{Local: state.NewLocal()}, &counted{}
		e := open(t, engine.Options{Policy: always(allow), Log: &memory{fail: tt.fail}, State: s, Tools: []engine.Tool{tool.tool()}})
		if _, err := e.Do(t.Context(), echo("x")); code(err) != tt.code || tool.count() != tt.settled {
			t.Errorf("Do with the log's %v = %v", tt.fail, err)
		}
		if len(s.settled) != tt.settled || len(s.released) != tt.released {
			t.Errorf("with the log's %v: %d settled, %d given back", tt.fail, len(s.settled), len(s.released))
		}
	}
}

// waiving goes without something.
type waiving struct {
	*state.Local
	waived []string
}

func (w waiving) Waived() []string { return w.waived }

// What the state goes without is in the log of every start, and nothing is if it lacks
// nothing.
func TestWaiversAreRecorded(t *testing.T) {
	log := &memory{}
	for _, waived := range [][]string{{"appendonly", "appendfsync"}, nil} {
		before := len(log.records)
		open(t, engine.Options{Policy: always(allow), Tools: []engine.Tool{(&counted{}).tool()}, State: waiving{state.NewLocal(), waived}, Log: log, Node: "n1"}).Close()
		recs := log.decoded(t)[before:]
		if waived == nil {
			if len(recs) > 0 {
				t.Errorf("%+v", recs)
			}
			continue
		}
		if len(recs) != 1 || recs[0].Type != call.TypeWaiver || recs[0].Node != "n1" || recs[0].Time.IsZero() || !cmp.Equal(recs[0].Waived, waived) {
			t.Errorf("%+v", recs)
		}
	}
}
