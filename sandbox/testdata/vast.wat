;; A reactor with 32 MiB of memory, some of it data.
(module
  (memory (export "memory") 512)
  (data (i32.const 12345) "here")
  (data (i32.const 9000000) "and there")
  (func (export "callgate_call") (result i32) (i32.const 0)))
