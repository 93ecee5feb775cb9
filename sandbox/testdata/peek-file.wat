;; A reactor that opens a file when it is initialised, and returns 0 if it could.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "a.txt")
  (global $errno (mut i32) (i32.const 99))
  (func (export "_initialize")
    (global.set $errno (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 5) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 16))))
  (func (export "callgate_call") (result i32) (global.get $errno)))
