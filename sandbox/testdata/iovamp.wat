;; Writes one 8 MiB buffer 131,072 times in one call: a terabyte to stderr.
;; Exits with the error number.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 256)
  (func (export "_start") (local $i i32)
    (loop $l
      (i32.store (i32.add (local.get $i) (i32.const 4)) (i32.const 0x800000))
      (local.set $i (i32.add (local.get $i) (i32.const 8)))
      (br_if $l (i32.lt_u (local.get $i) (i32.const 0x100000))))
    (call $exit (call $write (i32.const 2) (i32.const 0) (i32.const 0x20000) (i32.const 0x200000)))))
