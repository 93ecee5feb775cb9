// Command goguest is an ordinary Go program: maps, sorting, JSON, goroutines,
// deferred recovery, the garbage collector. Built for wasip1 by a test.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"sort"
	"strings"
)

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func recovered() (s string) {
	defer func() { s = fmt.Sprint(recover()) }()
	var a []int
	return fmt.Sprint(a[len(os.Args)+3])
}

func depth(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + depth(n-1)
}

func main() {
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	words := map[string]int{}
	for _, w := range strings.Fields(string(in)) {
		words[w]++
	}
	keys := make([]string, 0, len(words))
	for k := range words {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	c := make(chan int)
	go func() {
		defer close(c)
		for i := range 100 {
			c <- fib(i % 20)
		}
	}()
	sum := 0
	for v := range c {
		sum += v
		_ = make([]byte, 1<<16)
	}
	runtime.GC()
	b, err := json.Marshal(words)
	if err != nil {
		panic(err)
	}
	fmt.Println(keys, string(b), sum, recovered(), depth(10_000))
}
