;; A reactor that logs a line when it is initialised, and returns 0 if it could.
(module
  (import "callgate" "log" (func $log (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "ready")
  (global $errno (mut i32) (i32.const 99))
  (func (export "_initialize") (global.set $errno (call $log (i32.const 0) (i32.const 5))))
  (func (export "callgate_call") (result i32) (global.get $errno)))
