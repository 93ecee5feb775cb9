;; A reactor that writes its result when it is initialised.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\40\00\00\00\07\00\00\00")
  (data (i32.const 64) "written")
  (func (export "_initialize") (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 32))))
  (func (export "callgate_call") (result i32) (i32.const 0)))
