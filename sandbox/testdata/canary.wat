;; A reactor that leaves a secret wherever it can, or looks for one that another
;; call left. Its arguments are {"m":N}; N says what to do, and how to end:
;;   0  look, print what was found as four digits: words of memory, globals,
;;      descriptors, and whether stdin, the environment or a size was odd
;;   1  leave and return     2  leave and exit(0)    3  leave and trap
;;   4  leave and spin       5  leave and grow       6  leave after a refused growth
;;   7  leave and exit(7)    8  leave and recurse    9  leave and return 1
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $fdstat (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 3 5)
  (data (i32.const 1024) "a.txt")
  (data (i32.const 65530) "across an edge")
  (global $a (mut i32) (i32.const 1))
  (global $b (mut i64) (i64.const 2))
  (global $c (mut f32) (f32.const 3))
  (global $d (mut f64) (f64.const 4))

  (func $mode (result i32)
    (i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 16))
    (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (i32.sub (i32.load8_u (i32.const 69)) (i32.const 48)))

  (func $leave (local $at i32)
    ;; files first, for their names lie in memory
    (loop $again
      (br_if $again (i32.eqz (call $open (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 5) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 16)))))
    (global.set $a (i32.const 0x5ec2e7))
    (global.set $b (i64.const 0x5ec2e75ec2e75ec2))
    (global.set $c (f32.const 0x1.5ec2e6p7))
    (global.set $d (f64.const 0x1.5ec2e75ec2e7p9))
    (loop $next
      (i64.store (local.get $at) (i64.const 0x5ec2e75ec2e75ec2))
      (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.shl (memory.size) (i32.const 16)))))
    ;; stdout and stderr
    (i32.store (i32.const 0) (i32.const 4096)) (i32.store (i32.const 4) (i32.const 64))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
    (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8))))

  (func $digit (param $at i32) (param $n i32)
    (i32.store8 (i32.add (i32.const 32) (local.get $at))
      (i32.add (i32.const 48) (select (i32.const 9) (local.get $n) (i32.gt_u (local.get $n) (i32.const 9))))))

  (func $look (local $at i32) (local $found i32)
    ;; what is at 0 to 80 now is this call's own
    (local.set $at (i32.const 80))
    (loop $next
      (if (i32.eq (i32.load (local.get $at)) (i32.const 0x5ec2e75e)) (then (local.set $found (i32.add (local.get $found) (i32.const 1)))))
      (if (i64.eq (i64.load (local.get $at)) (i64.const 0x5ec2e75ec2e75ec2)) (then (local.set $found (i32.add (local.get $found) (i32.const 1)))))
      (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.shl (memory.size) (i32.const 16)))))
    (if (i32.ne (i32.load8_u (i32.const 1024)) (i32.const 97)) (then (local.set $found (i32.const 8))))
    (if (i32.ne (i32.load8_u (i32.const 65543)) (i32.const 101)) (then (local.set $found (i32.const 9))))
    (call $digit (i32.const 0) (local.get $found))
    (local.set $found (i32.ne (global.get $a) (i32.const 1)))
    (local.set $found (i32.add (local.get $found) (i64.ne (global.get $b) (i64.const 2))))
    (local.set $found (i32.add (local.get $found) (f32.ne (global.get $c) (f32.const 3))))
    (local.set $found (i32.add (local.get $found) (f64.ne (global.get $d) (f64.const 4))))
    (call $digit (i32.const 1) (local.get $found))
    (local.set $found (i32.const 0))
    (local.set $at (i32.const 4)) ;; 3 is the granted directory
    (loop $fds
      (if (i32.eqz (call $fdstat (local.get $at) (i32.const 128))) (then (local.set $found (i32.add (local.get $found) (i32.const 1)))))
      (br_if $fds (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 1))) (i32.const 200))))
    (call $digit (i32.const 2) (local.get $found))
    ;; nothing is left of stdin, nothing is in the environment, nothing grew
    (i32.store (i32.const 0) (i32.const 96)) (i32.store (i32.const 4) (i32.const 16))
    (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (local.set $found (i32.load (i32.const 8)))
    (drop (call $environ (i32.const 8) (i32.const 12)))
    (local.set $found (i32.add (local.get $found) (i32.load (i32.const 8))))
    (local.set $found (i32.add (local.get $found) (i32.ne (memory.size) (i32.const 3))))
    (call $digit (i32.const 3) (local.get $found))
    (i32.store (i32.const 0) (i32.const 32)) (i32.store (i32.const 4) (i32.const 4))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))

  (func $deep (param i64 i64 i64 i64) (result i64)
    (i64.add (local.get 0) (call $deep (local.get 3) (local.get 0) (local.get 1) (local.get 2))))

  (func (export "callgate_call") (result i32) (local $mode i32)
    (local.set $mode (call $mode))
    (if (i32.eqz (local.get $mode)) (then (call $look) (return (i32.const 0))))
    (if (i32.eq (local.get $mode) (i32.const 5)) (then (drop (memory.grow (i32.const 1)))))
    (if (i32.eq (local.get $mode) (i32.const 6)) (then (drop (memory.grow (i32.const 100)))))
    (call $leave)
    (if (i32.eq (local.get $mode) (i32.const 2)) (then (call $exit (i32.const 0))))
    (if (i32.eq (local.get $mode) (i32.const 3)) (then (unreachable)))
    (if (i32.eq (local.get $mode) (i32.const 4)) (then (loop $spin (br $spin))))
    (if (i32.eq (local.get $mode) (i32.const 7)) (then (call $exit (i32.const 7))))
    (if (i32.eq (local.get $mode) (i32.const 8))
      (then (drop (call $deep (i64.const 0x5ec2e7) (i64.const 1) (i64.const 2) (i64.const 3)))))
    (i32.eq (local.get $mode) (i32.const 9))))
