;; Asks to read a file, and in the same breath to truncate it; to create one; to
;; append. Exits with the sum of the three error numbers.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "a.txt") (data (i32.const 8) "newfile")
  (func (export "_start")
    (call $exit (i32.add (i32.add
      (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 5) (i32.const 8) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 100))
      (call $open (i32.const 3) (i32.const 0) (i32.const 8) (i32.const 7) (i32.const 1) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 100)))
      (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 5) (i32.const 0) (i64.const 66) (i64.const 0) (i32.const 1) (i32.const 100))))))
