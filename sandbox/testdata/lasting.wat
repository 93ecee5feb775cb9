;; A reactor that leaves marks where a reset would not find them: in a table, in
;; globals of vectors and references, and in segments that it drops. It returns
;; how many it finds.
(module
  (memory (export "memory") 1)
  (table $t 4 funcref)
  (elem declare func $f)
  (elem $e func $f)
  (data $d "data")
  (global $v (mut v128) (v128.const i64x2 0 0))
  (global $r (mut funcref) (ref.null func))
  (func $f)
  (func (export "callgate_call") (result i32) (local $found i32)
    (local.set $found (i32.eqz (ref.is_null (table.get $t (i32.const 1)))))
    (local.set $found (i32.add (local.get $found) (i32.ne (table.size $t) (i32.const 4))))
    (local.set $found (i32.add (local.get $found) (v128.any_true (global.get $v))))
    (local.set $found (i32.add (local.get $found) (i32.eqz (ref.is_null (global.get $r)))))
    (table.set $t (i32.const 1) (ref.func $f))
    (drop (table.grow $t (ref.null func) (i32.const 1)))
    (global.set $v (v128.const i64x2 0 1))
    (global.set $r (ref.func $f))
    (table.init $t $e (i32.const 2) (i32.const 0) (i32.const 1)) ;; traps if it was dropped
    (memory.init $d (i32.const 0) (i32.const 0) (i32.const 4))
    (elem.drop $e)
    (data.drop $d)
    (local.get $found)))
