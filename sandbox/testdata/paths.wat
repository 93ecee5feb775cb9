;; Opens paths through descriptors, as no C library would: what is on stdin
;; between the quotes of {"p":"..."}, relative to the first granted directory.
;; Exits with the error number.
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 4)
  (data (i32.const 0) "\00\01\00\00\00\00\02\00")
  (func (export "_start")
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 16)))
    (call $exit (call $open (i32.const 3) (i32.const 1) (i32.const 262) (i32.sub (i32.load (i32.const 16)) (i32.const 8))
      (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 32)))))
