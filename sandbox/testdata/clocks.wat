;; Prints what it can know of time and chance: the precision of the real-time and
;; the monotonic clock, what each shows, 8 bytes each, and 16 random bytes.
(module
  (import "wasi_snapshot_preview1" "clock_res_get" (func $res (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $time (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\30\00\00\00")
  (func (export "_start")
    (drop (call $res (i32.const 0) (i32.const 16)))
    (drop (call $res (i32.const 1) (i32.const 24)))
    (drop (call $time (i32.const 0) (i64.const 1) (i32.const 32)))
    (drop (call $time (i32.const 1) (i64.const 1) (i32.const 40)))
    (drop (call $random (i32.const 48) (i32.const 16)))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
