;; Prints a word when it has all the memory that there can be.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\04\00\00\00")
  (data (i32.const 16) "wide")
  (func (export "_start")
    (if (i32.lt_s (memory.grow (i32.const 65535)) (i32.const 0)) (then (call $exit (i32.const 99))))
    (call $exit (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
