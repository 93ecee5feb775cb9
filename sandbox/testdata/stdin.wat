;; Reads stdin to its end, four bytes at a time, and exits with the length.
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\64\00\00\00\04\00\00\00")
  (func (export "_start") (local $n i32)
    (loop $l
      (if (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 64)) (then (unreachable)))
      (local.set $n (i32.add (local.get $n) (i32.load (i32.const 64))))
      (br_if $l (i32.load (i32.const 64))))
    (call $exit (local.get $n))))
