;; Asks for 32 MiB of randomness, for ever.
(module
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (memory (export "memory") 512)
  (func (export "_start") (loop $l (drop (call $random (i32.const 0) (i32.const 0x2000000))) (br $l))))
