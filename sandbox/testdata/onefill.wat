;; Fills 256 MiB of memory by one instruction, without a loop.
(module
  (memory (export "memory") 4096)
  (func (export "_start") (memory.fill (i32.const 0) (i32.const 7) (i32.const 0x10000000))))
