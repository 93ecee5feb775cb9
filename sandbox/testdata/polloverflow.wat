;; Names so many subscriptions that their size wraps around 32 bits.
(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_start") (call $exit (call $poll (i32.const 0) (i32.const 1000) (i32.const 0x10000000) (i32.const 400)))))
