;; Opens the directory "sub" for opening files for reading, then "b.txt" and
;; "../../secret.txt" below it. Exits with the last error number.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "sub") (data (i32.const 8) "../../secret.txt") (data (i32.const 32) "b.txt")
  (func (export "_start")
    (if (call $open (i32.const 3) (i32.const 1) (i32.const 0) (i32.const 3) (i32.const 2) (i64.const 8192) (i64.const 2) (i32.const 0) (i32.const 100)) (then (unreachable)))
    (if (call $open (i32.load (i32.const 100)) (i32.const 1) (i32.const 32) (i32.const 5) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 104)) (then (unreachable)))
    (call $exit (call $open (i32.load (i32.const 100)) (i32.const 1) (i32.const 8) (i32.const 16) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 104)))))
