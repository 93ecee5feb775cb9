;; Lists a directory before anything calls it; the call says how that went.
(module
  (import "callgate" "fs_list" (func $fs_list (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "/docs/reports/sub")
  (global $errno (mut i32) (i32.const -1))
  (func $start (global.set $errno (call $fs_list (i32.const 0) (i32.const 17) (i32.const 32))))
  (start $start)
  (func (export "callgate_call") (result i32)
    (i32.add (global.get $errno) (i32.load (i32.const 32)))))
