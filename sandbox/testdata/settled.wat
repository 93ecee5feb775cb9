;; A reactor whose start function and initialisation do much: they burn fuel, grow
;; memory, and leave values in it and in globals. It returns 0 if it finds all that
;; as it was left, and then changes it.
(module
  (memory (export "memory") 2)
  (data (i32.const 70000) "data")
  (global $a (mut i32) (i32.const 1))
  (global $b (mut f64) (f64.const 0))
  (func $start
    (global.set $a (i32.add (global.get $a) (i32.const 41)))
    (i32.store (i32.const 16) (i32.const 7)))
  (start $start)
  (func (export "_initialize") (local $n i32)
    (drop (memory.grow (i32.const 5)))
    (loop $again
      (i32.store (i32.add (i32.const 300000) (i32.shl (local.get $n) (i32.const 2))) (local.get $n))
      (br_if $again (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 1000))))
    (global.set $b (f64.const 0.1))
    (i32.store8 (i32.const 70000) (i32.const 68)))
  (func (export "callgate_call") (result i32) (local $odd i32)
    (local.set $odd (i32.ne (global.get $a) (i32.const 42)))
    (local.set $odd (i32.add (local.get $odd) (f64.ne (global.get $b) (f64.const 0.1))))
    (local.set $odd (i32.add (local.get $odd) (i32.ne (memory.size) (i32.const 7))))
    (local.set $odd (i32.add (local.get $odd) (i32.ne (i32.load (i32.const 16)) (i32.const 7))))
    (local.set $odd (i32.add (local.get $odd) (i32.ne (i32.load (i32.const 303996)) (i32.const 999))))
    (local.set $odd (i32.add (local.get $odd) (i32.ne (i32.load (i32.const 70000)) (i32.const 0x61746144)))) ;; "Data"
    (global.set $a (i32.const 0)) (global.set $b (f64.const 9))
    (i32.store (i32.const 16) (i32.const 8)) (i32.store (i32.const 303996) (i32.const 1)) (i32.store (i32.const 70000) (i32.const 0))
    (local.get $odd)))
