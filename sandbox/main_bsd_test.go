//go:build unix && !linux

package sandbox_test

func lookMore() string { return "" }

const lookedMore = ""
