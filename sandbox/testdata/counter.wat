;; A reactor that returns how often it was called, in a global and in memory.
(module
  (memory (export "memory") 1)
  (global $n (mut i32) (i32.const 0))
  (func (export "_initialize") (global.set $n (i32.const 100)))
  (func (export "callgate_call") (result i32)
    (global.set $n (i32.add (global.get $n) (i32.const 1)))
    (i32.store (i32.const 8) (i32.add (i32.load (i32.const 8)) (i32.const 1)))
    (i32.add (global.get $n) (i32.load (i32.const 8)))))
