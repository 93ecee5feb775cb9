;; A reactor that asks for much memory when it is initialised, and returns 1 if it
;; got none.
(module
  (memory (export "memory") 1)
  (global $was (mut i32) (i32.const 0))
  (func (export "_initialize") (global.set $was (memory.grow (i32.const 100))))
  (func (export "callgate_call") (result i32) (i32.eq (global.get $was) (i32.const -1))))
