;; show: a reactor that returns the content of /docs/reports/a.txt.
(module
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "callgate" "fs_read" (func $fs_read (param i32 i32 i32) (result i32)))
  (import "callgate" "answer" (func $answer (param i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "/docs/reports/a.txt") ;; 19 bytes
  (data (i32.const 32) "\00\00\01\00")       ;; a list of one buffer: where,
  ;; and at 36 its length, which the host writes there
  (func (export "callgate_call") (result i32)
    (local $error i32)
    (local.set $error (call $fs_read (i32.const 0) (i32.const 19) (i32.const 36)))
    (if (local.get $error) (then (return (local.get $error))))
    (if (i32.gt_u (i32.load (i32.const 36)) (i32.const 65536))
      (then (return (i32.const 100)))) ;; more than we have room for
    (local.set $error (call $answer (i32.const 65536) (i32.load (i32.const 36))))
    (if (local.get $error) (then (return (local.get $error))))
    (call $fd_write (i32.const 1) (i32.const 32) (i32.const 1) (i32.const 40))))
