;; A reactor around QuickJS: evaluates the argument source as a script that finds
;; all arguments in the global args, and returns the script's value as JSON. An
;; exception goes to the log and is the result 1; a value that JSON cannot say, 2.
;;
;; There are no data segments, since QuickJS has all of the memory, and the two names
;; are numbers.
(module
  (type $read (func (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (type $read)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (type $read)))
  (import "quickjs" "memory" (memory 1))
  (import "quickjs" "quickjs_new" (func $new))
  (import "quickjs" "malloc" (func $malloc (param i32) (result i32)))
  (import "quickjs" "free" (func $free (param i32)))
  (import "quickjs" "qjs_init" (func $init (result i32)))
  (import "quickjs" "qjs_get_context_ptr" (func $context (result i32)))
  (import "quickjs" "JS_ParseJSON" (func $parse (param i32 i32 i32 i32) (result i64)))
  (import "quickjs" "JS_GetGlobalObject" (func $global (param i32) (result i64)))
  (import "quickjs" "JS_SetPropertyStr" (func $set (param i32 i64 i32 i64) (result i32)))
  (import "quickjs" "JS_GetPropertyStr" (func $get (param i32 i64 i32) (result i64)))
  (import "quickjs" "JS_Eval" (func $eval (param i32 i32 i32 i32 i32) (result i64)))
  (import "quickjs" "JS_JSONStringify" (func $stringify (param i32 i64 i64 i64) (result i64)))
  (import "quickjs" "JS_ToCStringLen2" (func $text (param i32 i32 i64 i32) (result i32)))
  (import "quickjs" "JS_HasException" (func $failed (param i32) (result i32)))
  (import "quickjs" "JS_GetException" (func $exception (param i32) (result i64)))

  (global $undefined i64 (i64.const 0x300000000)) ;; a JSValue
  (global $size i32 (i32.const 1048576))           ;; of arguments, at most

  ;; Allocated once: pointer and length for WASI, what it did, the names, arguments.
  (global $iovec (mut i32) (i32.const 0))
  (global $done (mut i32) (i32.const 0))
  (global $source (mut i32) (i32.const 0))
  (global $args (mut i32) (i32.const 0))
  (global $in (mut i32) (i32.const 0))

  ;; What QuickJS asks its host for. There are no host functions, handlers or modules.
  (func (export "host_call") (param i32 i32 i32 i32 i32) (result i32) unreachable)
  (func (export "host_interrupt") (result i32) unreachable)
  (func (export "host_promise_rejection") (param i32 i32 i32) unreachable)
  (func (export "host_module_normalize") (param i32 i32) (result i32) unreachable)
  (func (export "host_module_load") (param i32 i32) (result i32) unreachable)
  (func (export "host_get_timezone_offset") (param i32 i32) (result i32) (i32.const 0))

  ;; Makes the runtime and its context, so that a snapshot has them.
  (func (export "_initialize")
    (local $spare i32)
    (call $new)
    (if (call $init) (then unreachable))
    (global.set $iovec (call $malloc (i32.add (global.get $size) (i32.const 33))))
    (if (i32.eqz (global.get $iovec)) (then unreachable))
    (global.set $done (i32.add (global.get $iovec) (i32.const 8)))
    (global.set $source (i32.add (global.get $iovec) (i32.const 16)))
    (global.set $args (i32.add (global.get $iovec) (i32.const 24)))
    (global.set $in (i32.add (global.get $iovec) (i32.const 32)))
    (i64.store (global.get $source) (i64.const 0x656372756f73))
    (i64.store (global.get $args) (i64.const 0x73677261))
    ;; An instance whose memory grew in a call is not used again, so calls find
    ;; a megabyte that is free.
    (local.set $spare (call $malloc (global.get $size)))
    (if (i32.eqz (local.get $spare)) (then unreachable))
    (call $free (local.get $spare)))

  ;; Reads all of stdin, ends it with a zero and gives its length.
  (func $read_all (result i32)
    (local $n i32)
    (loop $more
      (i32.store (global.get $iovec) (i32.add (global.get $in) (local.get $n)))
      (i32.store offset=4 (global.get $iovec) (i32.sub (global.get $size) (local.get $n)))
      (if (call $fd_read (i32.const 0) (global.get $iovec) (i32.const 1) (global.get $done)) (then unreachable))
      (local.set $n (i32.add (local.get $n) (i32.load (global.get $done))))
      (br_if $more (i32.load (global.get $done))))
    (i32.store8 (i32.add (global.get $in) (local.get $n)) (i32.const 0))
    (local.get $n))

  ;; Writes the text of a value to a descriptor.
  (func $print (param $fd i32) (param $value i64)
    (local $at i32)
    (local.set $at (call $text (call $context) (i32.add (global.get $iovec) (i32.const 4)) (local.get $value) (i32.const 0)))
    (if (i32.eqz (local.get $at)) (then return)) ;; it has none, or there is no room
    (i32.store (global.get $iovec) (local.get $at))
    (loop $more
      (if (call $fd_write (local.get $fd) (global.get $iovec) (i32.const 1) (global.get $done)) (then unreachable))
      (i32.store (global.get $iovec) (i32.add (i32.load (global.get $iovec)) (i32.load (global.get $done))))
      (i32.store offset=4 (global.get $iovec) (i32.sub (i32.load offset=4 (global.get $iovec)) (i32.load (global.get $done))))
      (br_if $more (i32.load offset=4 (global.get $iovec)))))

  ;; Nothing is freed: an instance serves one call.
  (func (export "callgate_call") (result i32)
    (local $c i32) (local $value i64) (local $at i32)
    (local.set $c (call $context))
    (block $failed
      (local.set $value (call $parse (local.get $c) (global.get $in) (call $read_all) (global.get $source)))
      (br_if $failed (call $failed (local.get $c)))
      (drop (call $set (local.get $c) (call $global (local.get $c)) (global.get $args) (local.get $value)))
      (local.set $value (call $get (local.get $c) (local.get $value) (global.get $source)))
      (local.set $at (call $text (local.get $c) (global.get $done) (local.get $value) (i32.const 0)))
      (br_if $failed (i32.eqz (local.get $at)))
      (local.set $value (call $eval (local.get $c) (local.get $at) (i32.load (global.get $done)) (global.get $source) (i32.const 0)))
      (br_if $failed (call $failed (local.get $c)))
      (local.set $value (call $stringify (local.get $c) (local.get $value) (global.get $undefined) (global.get $undefined)))
      (br_if $failed (call $failed (local.get $c)))
      (if (i64.eq (local.get $value) (global.get $undefined)) (then (return (i32.const 2))))
      (call $print (i32.const 1) (local.get $value))
      (return (i32.const 0)))
    (call $print (i32.const 2) (call $exception (local.get $c)))
    (i32.const 1)))
