package call

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	deep := func(n int) string {
		return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
	}
	sized := func(n int) string { return `{"a":"` + strings.Repeat("x", n-len(`{"a":""}`)) + `"}` }
	tests := []struct {
		name, give string
		want       string // "" for same as give
		code       Code
	}{
		{"sorted", `{"b":1,"a":2}`, `{"a":2,"b":1}`, ""},
		{"white space", " {\n\t\"a\" : [ 1 , true , null ] }\r\n", `{"a":[1,true,null]}`, ""},
		{"key order beyond the BMP is UTF-16", `{"\ufb33":2,"\ud83d\ude00":1}`, "{\"\U0001f600\":1,\"\ufb33\":2}", ""},
		{"escapes", `{"s":"\u20ac<>&\/\u000f\n\u0022"}`, `{"s":"€<>&/\u000f\n\""}`, ""},
		{"empty", `{}`, ``, ""},

		{"1.0 is 1", `{"n":1.0}`, `{"n":1}`, ""},
		{"0.1e1 is 1", `{"n":0.1e1}`, `{"n":1}`, ""},
		{"1e2", `{"n":1e2}`, `{"n":100}`, ""},
		{"minus zero", `{"n":-0}`, `{"n":0}`, ""},
		{"0.1", `{"n":0.1}`, ``, ""},
		{"17 digits", `{"n":0.30000000000000004}`, ``, ""},
		{"all digits of 0.1", `{"n":0.1000000000000000055511151231257827}`, ``, CodeArgsInexact},
		{"one digit too many", `{"n":3.14159265358979323846}`, ``, CodeArgsInexact},
		{"smallest", `{"n":5e-324}`, ``, ""},
		{"smaller", `{"n":4.9406564584124654e-324}`, ``, CodeArgsInexact},
		{"underflow", `{"n":1e-400}`, ``, CodeArgsInexact},
		{"overflow", `{"n":1e400}`, ``, CodeArgsInexact},
		{"overflow, upper case", `{"n":1E400}`, ``, CodeArgsInexact},
		{"huge exponent", `{"n":1e999999999}`, ``, CodeArgsInexact},
		{"huge negative exponent", `{"n":0e-999999999999999999999}`, ``, CodeArgsInexact},
		{"2^53-1", `{"n":9007199254740991}`, ``, ""},
		{"-(2^53-1)", `{"n":-9007199254740991}`, ``, ""},
		{"2^53", `{"n":9007199254740992}`, ``, CodeArgsInexact},
		{"2^53+1", `{"n":9007199254740993}`, ``, CodeArgsInexact},
		{"-2^53", `{"n":-9007199254740992}`, ``, CodeArgsInexact},
		{"1e22", `{"n":1e22}`, ``, CodeArgsInexact},
		{"half beyond", `{"n":9007199254740991.5}`, ``, CodeArgsInexact},
		{"many zeros", `{"n":1.` + strings.Repeat("0", maxNumber) + `}`, ``, CodeArgsInexact},
		{"deep in arrays", `{"a":[[{"n":1e400}]]}`, ``, CodeArgsInexact},
		{"a string of digits is no number", `{"n":"9007199254740993"}`, ``, ""},

		{"duplicate key", `{"a":1,"a":2}`, ``, CodeArgsInvalid},
		{"duplicate key, escaped", `{"a":1,"\u0061":2}`, ``, CodeArgsInvalid},
		{"duplicate key, nested", `{"x":[{"a":1,"a":1}]}`, ``, CodeArgsInvalid},
		{"invalid UTF-8", "{\"s\":\"\xff\"}", ``, CodeArgsInvalid},
		{"invalid UTF-8 in a key", "{\"\xff\":1}", ``, CodeArgsInvalid},
		{"overlong UTF-8", "{\"s\":\"\xc0\xaf\"}", ``, CodeArgsInvalid},
		{"lone surrogate", `{"s":"\ud800"}`, ``, CodeArgsInvalid},
		{"swapped surrogates", `{"s":"\ude00\ud83d"}`, ``, CodeArgsInvalid},
		{"raw control character", "{\"s\":\"\n\"}", ``, CodeArgsInvalid},
		{"byte order mark", "\ufeff{}", ``, CodeArgsInvalid},
		{"trailing text", `{"a":1} x`, ``, CodeArgsInvalid},
		{"trailing object", `{} {}`, ``, CodeArgsInvalid},
		{"trailing bracket", `{}}`, ``, CodeArgsInvalid},
		{"trailing NUL", "{}\x00", ``, CodeArgsInvalid},
		{"cut off", `{"a":`, ``, CodeArgsInvalid},
		{"cut off in a string", `{"a":"x`, ``, CodeArgsInvalid},
		{"nothing", ``, ``, CodeArgsInvalid},
		{"array", `[]`, ``, CodeArgsInvalid},
		{"string", `"{}"`, ``, CodeArgsInvalid},
		{"null", `null`, ``, CodeArgsInvalid},
		{"comment", `{/**/}`, ``, CodeArgsInvalid},
		{"trailing comma", `{"a":1,}`, ``, CodeArgsInvalid},
		{"leading zero", `{"n":01}`, ``, CodeArgsInvalid},
		{"plus", `{"n":+1}`, ``, CodeArgsInvalid},
		{"NaN", `{"n":NaN}`, ``, CodeArgsInvalid},

		{"deepest", deep(MaxArgsDepth), ``, ""},
		{"too deep", deep(MaxArgsDepth + 1), ``, CodeArgsInvalid},
		{"much too deep", strings.Repeat(`{"a":`, 200000), ``, CodeArgsInvalid},
		{"largest", sized(MaxArgsBytes), ``, ""},
		{"too large", sized(MaxArgsBytes + 1), ``, CodeArgsTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := Canonical([]byte(tt.give))
			if got := CodeOf(err, ""); got != tt.code {
				t.Fatalf("code %q (%v), want %q", got, err, tt.code)
			}
			if tt.code != "" {
				if !a.IsZero() || a.Bytes() != nil {
					t.Fatalf("refused, yet gave %.40q", a.raw)
				}
				return
			}
			want := tt.want
			if want == "" {
				want = tt.give
			}
			if a.raw != want {
				t.Errorf("got %.80q, want %.80q", a.raw, want)
			}
		})
	}
}

// Two numbers that a tool can tell apart never have one canonical form.
func TestCanonicalNumberIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s string
		switch rapid.IntRange(0, 2).Draw(t, "shape") {
		case 0:
			f := rapid.Float64Range(-maxExact, maxExact).Draw(t, "float")
			s = strconv.FormatFloat(f, rapid.SampledFrom([]byte("efg")).Draw(t, "format"), -1, 64)
		case 1:
			s = strconv.FormatInt(rapid.Int64().Draw(t, "int"), 10)
		default:
			s = rapid.StringMatching(`-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?`).Draw(t, "number")
		}
		in, ok := new(big.Rat).SetString(s)
		if !ok {
			return // not a number that big.Rat reads
		}
		a, err := Canonical([]byte(`{"n":` + s + `}`))
		if err != nil {
			if CodeOf(err, "") != CodeArgsInexact {
				t.Fatalf("%s: %v", s, err)
			}
			f, _ := in.Float64()
			if math.IsInf(f, 0) {
				return
			}
			short, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
			if math.Abs(f) <= maxExact && short.Cmp(in) == 0 && f != 0 { // zeros like 0e401 are refused unread
				t.Fatalf("%s is exact, yet refused", s)
			}
			return
		}
		out, ok := new(big.Rat).SetString(strings.TrimSuffix(strings.TrimPrefix(a.raw, `{"n":`), "}"))
		if !ok || out.Cmp(in) != 0 {
			t.Fatalf("%s became %s", s, a.raw)
		}
	})
}

func TestCanonicalIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-maxExact-3, -maxExact+3), rapid.Int64Range(maxExact-3, maxExact+3), rapid.Int64Range(-9, 9)).Draw(t, "n")
		raw := fmt.Sprintf(`{"n":%d}`, n)
		a, err := Canonical([]byte(raw))
		if n >= -maxExact && n <= maxExact {
			if err != nil || a.raw != raw {
				t.Fatalf("%s: %q, %v", raw, a.raw, err)
			}
		} else if CodeOf(err, "") != CodeArgsInexact {
			t.Fatalf("%s: %q, %v", raw, a.raw, err)
		}
	})
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		`{"b":1,"a":[1.0,"x"]}`, `{"n":9007199254740993}`, `{"n":1e400}`, `{"n":-0}`, `{"a":1,"a":2}`, "{\"s\":\"\xff\"}", `{"s":"\ud800"}`,
		`{"s":"\u20ac<>&"}`, `{"\ud83d\ude00":1,"\ufb33":2}`, `{"a":1} x`, `{} {}`, `{"n":5e-324}`, `{"n":1e-7}`, `{"n":0.000001}`, `{"\u2028":"\u007f"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		a, err := Canonical(in)
		if err != nil {
			return // refusing is always allowed
		}
		b, err := Canonical(a.Bytes())
		if err != nil || a != b {
			t.Fatalf("not a fixed point: %q then %q, %v", a.raw, b.raw, err)
		}
		other, err := jcs.Transform(in)
		if err != nil || string(other) != a.raw {
			t.Fatalf("%q: we say %q, jcs says %q, %v", in, a.raw, other, err)
		}
		if x, y := numbers(t, in), numbers(t, a.Bytes()); !reflect.DeepEqual(x, y) {
			t.Fatalf("%q means %v, %q means %v", in, x, a.raw, y)
		}
	})
}

// numbers decodes with another reader and keeps numbers exact.
func numbers(t *testing.T, b []byte) any {
	d := stdjson.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var exactly func(any) any
	exactly = func(v any) any {
		switch v := v.(type) {
		case stdjson.Number:
			r, ok := new(big.Rat).SetString(v.String())
			if !ok {
				t.Fatalf("not a number: %s", v)
			}
			return r.RatString()
		case []any:
			for i := range v {
				v[i] = exactly(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = exactly(v[k])
			}
		}
		return v
	}
	return exactly(v)
}

func TestArgs(t *testing.T) {
	a, err := Canonical([]byte(`{"b":1,"a":2}`))
	if err != nil {
		t.Fatal(err)
	}
	b := a.Bytes()
	b[0] = 'x'
	if a.raw != `{"a":2,"b":1}` {
		t.Error("a change of Bytes shows in the arguments")
	}
	if got, want := a.Digest(), "sha256:d3626ac30a87e6f7a6428233b3c68299976865fa5508e4267c5415c76af7a772"; got != want {
		t.Errorf("Digest = %s, want %s", got, want)
	}

	out, err := json.Marshal(a)
	if err != nil || string(out) != a.raw {
		t.Errorf("Marshal = %s, %v", out, err)
	}
	var back Args
	if err := json.Unmarshal([]byte(` {"b":1.0,"a":2}`), &back); err != nil || back != a {
		t.Errorf("Unmarshal = %q, %v", back.raw, err)
	}
	if err := json.Unmarshal([]byte(`{"n":1e400}`), &back); CodeOf(err, "") != CodeArgsInexact {
		t.Errorf("Unmarshal of an inexact number: %v", err)
	}

	var zero Args
	if !zero.IsZero() || zero.Bytes() != nil {
		t.Error("the zero value is something")
	}
	if _, err := json.Marshal(zero); err == nil {
		t.Error("the zero value has a JSON form")
	}
}

func TestErrorKeepsItsCauseApart(t *testing.T) {
	_, err := Canonical([]byte(`{"password":"hunter2","x":hunter2}`))
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != CodeArgsInvalid || strings.Contains(e.Detail, "hunter2") || e.Err == nil || e.Unwrap() != e.Err {
		t.Errorf("%#v", err)
	}
	if got := CodeOf(fmt.Errorf("around: %w", err), ""); got != CodeArgsInvalid {
		t.Errorf("CodeOf a wrapped error = %q", got)
	}
	if got := CodeOf(errors.New("other"), CodeInternal); got != CodeInternal {
		t.Errorf("CodeOf another error = %q", got)
	}
	if got := (&Error{Code: CodeArgsSchema, Detail: "at /a", Err: errors.New("x")}).Error(); got != "args_schema: at /a: x" {
		t.Errorf("Error = %q", got)
	}
}
