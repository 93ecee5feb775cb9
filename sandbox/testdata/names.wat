;; A reactor that notes the name of its first directory and the precision of its
;; clock when it is initialised. It returns 0 if they are still the same.
(module
  (import "wasi_snapshot_preview1" "fd_prestat_dir_name" (func $name (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_res_get" (func $precision (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $look (param $at i32)
    (i32.store (local.get $at) (call $prestat (i32.const 3) (i32.add (local.get $at) (i32.const 8))))
    (i32.store (i32.add (local.get $at) (i32.const 16)) (call $name (i32.const 3) (i32.add (local.get $at) (i32.const 32))
      (i32.load (i32.add (local.get $at) (i32.const 12)))))
    (drop (call $precision (i32.const 0) (i32.add (local.get $at) (i32.const 24)))))
  (func (export "_initialize") (call $look (i32.const 0)))
  (func (export "callgate_call") (result i32) (local $at i32)
    (call $look (i32.const 1024))
    (loop $next
      (if (i32.ne (i32.load8_u (local.get $at)) (i32.load8_u (i32.add (local.get $at) (i32.const 1024)))) (then (return (i32.const 1))))
      (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 1))) (i32.const 512))))
    (i32.const 0)))
