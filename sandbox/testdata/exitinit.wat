;; A reactor that exits with 0 before it is called.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_initialize") (call $exit (i32.const 0)))
  (func (export "callgate_call") (result i32) (i32.const 0)))
