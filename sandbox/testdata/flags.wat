;; A reactor that makes stdout non-blocking when it is initialised, as Go does, and
;; returns the flags that stdout has.
(module
  (import "wasi_snapshot_preview1" "fd_fdstat_set_flags" (func $set (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $get (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_initialize") (drop (call $set (i32.const 1) (i32.const 4))))
  (func (export "callgate_call") (result i32)
    (drop (call $get (i32.const 1) (i32.const 0)))
    (i32.load16_u (i32.const 2))))
