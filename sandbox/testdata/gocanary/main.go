// Gocanary is a reactor in Go. Its arguments are {"m":N}: 0 looks for what another
// call left and prints it, 1 leaves a secret wherever Go keeps state, 2 does and
// exits, 3 does and panics. Without N it does nothing.
package main

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
)

const secret = "5ec2e75ec2e75ec2"

var (
	kept   []string
	byName = map[string]string{"a": "b"}
	count  int
	waits  = make(chan string)
	ready  = strings.Repeat("ready", 3) // when the program starts
)

func main() {}

//go:wasmexport callgate_call
func call() int32 {
	count++
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 9
	}
	if string(in) == "{}" {
		return 0
	}
	mode := in[len(in)-2]
	if mode == '0' {
		_, err := os.ReadFile("/docs/reports/left.txt")
		os.Stdout.WriteString("calls " + strconv.Itoa(count) + ", kept " + strconv.Itoa(len(kept)) + ", names " + strconv.Itoa(len(byName)) +
			", environment " + strconv.Quote(os.Getenv("SECRET")) + ", goroutines " + strconv.Itoa(runtime.NumGoroutine()) +
			", started " + strconv.FormatBool(ready == "readyreadyready") + ", file " + strconv.FormatBool(err == nil))
		return 0
	}
	for i := range 1000 {
		kept = append(kept, secret+strconv.Itoa(i))
		byName[strconv.Itoa(i)] = secret
	}
	os.Setenv("SECRET", secret)
	go func() { waits <- secret }()
	runtime.Gosched()
	f, _ := os.Open("/docs/reports/a.txt") // and it stays open
	os.Stderr.WriteString(secret + strconv.FormatBool(f != nil))
	switch mode {
	case '2':
		os.Exit(0)
	case '3':
		panic(secret)
	}
	os.Stdout.WriteString(secret)
	return 0
}
