;; A reactor that reads its arguments when it is initialised, and gives them back.
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\40\00\00\00\00\01\00\00") ;; a buffer of 256 bytes at 64
  (func (export "_initialize") (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 4))))
  (func (export "callgate_call") (result i32) (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 32))))
