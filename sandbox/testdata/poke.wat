;; Does what its arguments say, {"p": hex of a program}. Every step is a byte
;; and three words (little endian): 0 puts the b bytes that follow at a, 1 to 5
;; call http, fs_read, fs_list, answer and log, 6 prints b bytes at a, 7 is
;; answer(a, the word at b), 8 prints as many bytes at a as the word at b says,
;; 9 fills b bytes at a with c. 10 to 17 call fs_stat, fs_write, fs_append, fs_mkdir,
;; fs_remove, fs_rename, exec and charge, 18 to 24 exec_start, exec_output, exec_kill,
;; plan (with c), task_register, task_advance and task_replan; c is where the words for
;; the other parameters lie, if there are more than three. Each call prints its error number, 0 as the digit and so on.
;; The first 128 KiB of memory are free for programs.
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "callgate" "http" (func $http (param i32 i32 i32) (result i32)))
  (import "callgate" "fs_read" (func $fs_read (param i32 i32 i32) (result i32)))
  (import "callgate" "fs_list" (func $fs_list (param i32 i32 i32) (result i32)))
  (import "callgate" "fs_stat" (func $stat (param i32 i32 i32) (result i32)))
  (import "callgate" "fs_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "callgate" "fs_append" (func $append (param i32 i32 i32 i32) (result i32)))
  (import "callgate" "fs_mkdir" (func $mkdir (param i32 i32) (result i32)))
  (import "callgate" "fs_remove" (func $remove (param i32 i32) (result i32)))
  (import "callgate" "fs_rename" (func $rename (param i32 i32 i32 i32) (result i32)))
  (import "callgate" "exec" (func $exec (param i32 i32 i32) (result i32)))
  (import "callgate" "charge" (func $charge (param i32 i32 i64) (result i32)))
  (import "callgate" "exec_start" (func $start (param i32 i32 i32) (result i32)))
  (import "callgate" "exec_output" (func $output (param i32 i32 i32) (result i32)))
  (import "callgate" "exec_kill" (func $kill (param i32 i32) (result i32)))
  (import "callgate" "plan" (func $plan (param i32) (result i32)))
  (import "callgate" "task_register" (func $register (param i32 i32) (result i32)))
  (import "callgate" "task_advance" (func $advance (param i32 i32 i32 i32) (result i32)))
  (import "callgate" "task_replan" (func $replan (param i32 i32 i32 i32) (result i32)))
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
    (block $replan (block $advance (block $register (block $plan (block $kill (block $output (block $start
    (block $charge (block $exec (block $rename (block $remove (block $mkdir (block $append (block $write (block $stat
    (block $fill (block $printn (block $take (block $print (block $log (block $answer (block $list (block $read (block $http (block $put
      (br_table $put $http $read $list $answer $log $print $take $printn $fill
        $stat $write $append $mkdir $remove $rename $exec $charge
        $start $output $kill $plan $register $advance $replan (local.get $op)))
      (return (call $put (local.get $a) (local.get $b))))
      (return (call $number (call $http (local.get $a) (local.get $b) (local.get $c)))))
      (return (call $number (call $fs_read (local.get $a) (local.get $b) (local.get $c)))))
      (return (call $number (call $fs_list (local.get $a) (local.get $b) (local.get $c)))))
      (return (call $number (call $answer (local.get $a) (local.get $b)))))
      (return (call $number (call $log (local.get $a) (local.get $b)))))
      (return (call $print (local.get $a) (local.get $b))))
      (return (call $number (call $answer (local.get $a) (i32.load (local.get $b))))))
      (return (call $print (local.get $a) (i32.load (local.get $b)))))
      (memory.fill (local.get $a) (local.get $c) (local.get $b)) (return))
      (return (call $number (call $stat (local.get $a) (local.get $b) (local.get $c)))))
      (return (call $number (call $write (local.get $a) (local.get $b) (i32.load (local.get $c)) (i32.load offset=4 (local.get $c))))))
      (return (call $number (call $append (local.get $a) (local.get $b) (i32.load (local.get $c)) (i32.load offset=4 (local.get $c))))))
      (return (call $number (call $mkdir (local.get $a) (local.get $b)))))
      (return (call $number (call $remove (local.get $a) (local.get $b)))))
      (return (call $number (call $rename (local.get $a) (local.get $b) (i32.load (local.get $c)) (i32.load offset=4 (local.get $c))))))
      (return (call $number (call $exec (local.get $a) (local.get $b) (local.get $c)))))
      (return (call $number (call $charge (local.get $a) (local.get $b) (i64.load (local.get $c))))))
      (return (call $number (call $start (local.get $a) (local.get $b) (local.get $c)))))
      (return (call $number (call $output (local.get $a) (local.get $b) (local.get $c)))))
      (return (call $number (call $kill (local.get $a) (local.get $b)))))
      (return (call $number (call $plan (local.get $c)))))
      (return (call $number (call $register (local.get $a) (local.get $b)))))
      (return (call $number (call $advance (local.get $a) (local.get $b) (i32.load (local.get $c)) (i32.load offset=4 (local.get $c))))))
    (call $number (call $replan (local.get $a) (local.get $b) (i32.load (local.get $c)) (i32.load offset=4 (local.get $c)))))

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
