package rego

import (
	"encoding/xml"
	"io"
	"strings"
	"time"
	"unicode"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Seconds  float64     `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	File    string     `xml:"file,attr,omitempty"`
	Seconds float64    `xml:"time,attr"`
	Failure *junitFail `xml:"failure"`
	Skipped *struct{}  `xml:"skipped"`
	Output  string     `xml:"system-out,omitempty"`
}

type junitFail struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
}

// JUnit writes the results in the form that build servers read: one suite for each
// package.
func (r *TestReport) JUnit(w io.Writer) error {
	out := junitSuites{}
	at := map[string]int{}
	for _, t := range r.Tests {
		i := strings.LastIndexByte(t.Name, '.')
		pkg, name := t.Name[:max(0, i)], t.Name[i+1:]
		if _, ok := at[pkg]; !ok {
			at[pkg] = len(out.Suites)
			out.Suites = append(out.Suites, junitSuite{Name: pkg})
		}
		s := &out.Suites[at[pkg]]
		c := junitCase{Class: pkg, Name: name, File: t.Where, Seconds: t.Took.Round(time.Microsecond).Seconds(), Output: forXML(t.Output)}
		switch t.Outcome {
		case TestPass:
		case TestSkip:
			c.Skipped = &struct{}{}
			s.Skipped++
			out.Skipped++
		default:
			c.Failure = &junitFail{string(t.Outcome), forXML(t.Detail)}
			s.Failures++
			out.Failures++
		}
		s.Tests++
		out.Tests++
		s.Seconds += c.Seconds
		s.Cases = append(s.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// forXML leaves out what XML cannot hold.
func forXML(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, s)
}
