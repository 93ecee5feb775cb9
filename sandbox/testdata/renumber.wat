;; Renumbers descriptors: to a huge number, to a closed one, onto an open one.
;; Exits with the three error numbers, one in each byte.
(module
  (import "wasi_snapshot_preview1" "fd_renumber" (func $renumber (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "a.txt")
  (func (export "_start") (local $a i32) (local $b i32) (local $c i32)
    (drop (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 5) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 100)))
    (drop (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 5) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 104)))
    (local.set $a (call $renumber (i32.load (i32.const 100)) (i32.const 0x7fffffff)))
    (local.set $b (call $renumber (i32.load (i32.const 100)) (i32.const 200)))
    (local.set $c (call $renumber (i32.load (i32.const 100)) (i32.load (i32.const 104))))
    (call $exit (i32.or (local.get $a) (i32.or (i32.shl (local.get $b) (i32.const 8)) (i32.shl (local.get $c) (i32.const 16)))))))
