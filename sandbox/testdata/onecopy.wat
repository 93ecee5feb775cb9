;; Copies 128 MiB of memory by one instruction, without a loop.
(module
  (memory (export "memory") 2049)
  (func (export "_start") (memory.copy (i32.const 0x10000) (i32.const 0) (i32.const 0x8000000))))
