;; Opens the same file until it cannot. Exits with the error number plus 1,000
;; for each descriptor it got.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "a.txt")
  (func (export "_start") (local $n i32) (local $e i32)
    (loop $l
      (local.set $e (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 5) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 100)))
      (if (i32.eqz (local.get $e)) (then (local.set $n (i32.add (local.get $n) (i32.const 1))) (br $l))))
    (call $exit (i32.add (local.get $e) (i32.mul (local.get $n) (i32.const 1000))))))
