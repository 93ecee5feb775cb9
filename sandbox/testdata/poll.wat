;; Waits for a clock, stdin and a descriptor that is not open. Exits with the
;; number of events (2), plus 10 times the error of the second (8).
(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (i64.store (i32.const 24) (i64.const 3600000000000))
    (i32.store8 (i32.const 56) (i32.const 1))
    (i32.store8 (i32.const 104) (i32.const 1)) (i32.store (i32.const 112) (i32.const 77))
    (if (call $poll (i32.const 0) (i32.const 200) (i32.const 3) (i32.const 400)) (then (unreachable)))
    (call $exit (i32.add (i32.load (i32.const 400)) (i32.mul (i32.const 10) (i32.load16_u (i32.const 240)))))))
