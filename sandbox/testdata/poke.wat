;; Does what its arguments say, {"p": hex of a program}. Every step is a byte
;; and three words (little endian): 0 puts the b bytes that follow at a, 1 to 5
;; call http, fs_read, fs_list, answer and log, 6 prints b bytes at a, 7 is
;; answer(a, the word at b), 8 prints as many bytes at a as the word at b says,
;; 9 fills b bytes at a with c. Each call prints its error number as a digit.
;; The first 128 KiB of memory are free for programs.
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "callgate" "http" (func $http (param i32 i32 i32) (result i32)))
  (import "callgate" "fs_read" (func $fs_read (param i32 i32 i32) (result i32)))
  (import "callgate" "fs_list" (func $fs_list (param i32 i32 i32) (result i32)))
  (import "callgate" "answer" (func $answer (param i32 i32) (result i32)))
  (import "callgate" "log" (func $log (param i32 i32) (result i32)))
  (memory (export "memory") 4 4)
  (global $at (mut i32) (i32.const 0x20016)) ;; behind {"p":"
  (global $end (mut i32) (i32.const 0))

  (func $digit (param $c i32) (result i32)
    (select
      (i32.sub (local.get $c) (i32.const 48))
      (i32.sub (local.get $c) (i32.const 87))
      (i32.lt_u (local.get $c) (i32.const 58))))
  (func $byte (result i32)
    (i32.or
      (i32.shl (call $digit (i32.load8_u (global.get $at))) (i32.const 4))
      (call $digit (i32.load8_u offset=1 (global.get $at))))
    (global.set $at (i32.add (global.get $at) (i32.const 2))))
  (func $word (result i32)
    (i32.or
      (i32.or (call $byte) (i32.shl (call $byte) (i32.const 8)))
      (i32.or (i32.shl (call $byte) (i32.const 16)) (i32.shl (call $byte) (i32.const 24)))))

  (func $print (param $p i32) (param $n i32)
    (i32.store (i32.const 0x20000) (local.get $p))
    (i32.store (i32.const 0x20004) (local.get $n))
    (drop (call $fd_write (i32.const 1) (i32.const 0x20000) (i32.const 1) (i32.const 0x20008))))
  (func $number (param $errno i32)
    (i32.store8 (i32.const 0x2000c) (i32.add (local.get $errno) (i32.const 48)))
    (call $print (i32.const 0x2000c) (i32.const 1)))

  (func $put (param $p i32) (param $n i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $n)))
        (i32.store8 (local.get $p) (call $byte))
        (local.set $p (i32.add (local.get $p) (i32.const 1)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br $next))))

  (func $step (param $op i32) (param $a i32) (param $b i32) (param $c i32)
    (block $fill (block $printn (block $take (block $print (block $log (block $answer (block $list (block $read (block $http (block $put
      (br_table $put $http $read $list $answer $log $print $take $printn $fill (local.get $op)))
      (return (call $put (local.get $a) (local.get $b))))
      (return (call $number (call $http (local.get $a) (local.get $b) (local.get $c)))))
      (return (call $number (call $fs_read (local.get $a) (local.get $b) (local.get $c)))))
      (return (call $number (call $fs_list (local.get $a) (local.get $b) (local.get $c)))))
      (return (call $number (call $answer (local.get $a) (local.get $b)))))
      (return (call $number (call $log (local.get $a) (local.get $b)))))
      (return (call $print (local.get $a) (local.get $b))))
      (return (call $number (call $answer (local.get $a) (i32.load (local.get $b))))))
      (return (call $print (local.get $a) (i32.load (local.get $b)))))
    (memory.fill (local.get $a) (local.get $c) (local.get $b)))

  (func (export "_start")
    (i32.store (i32.const 0x20000) (i32.const 0x20010))
    (i32.store (i32.const 0x20004) (i32.const 0x1fff0))
    (drop (call $fd_read (i32.const 0) (i32.const 0x20000) (i32.const 1) (i32.const 0x20008)))
    (global.set $end (i32.add (i32.const 0x2000e) (i32.load (i32.const 0x20008))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (global.get $at) (global.get $end)))
        (call $step (call $byte) (call $word) (call $word) (call $word))
        (br $next)))))
