;; Fills all of its memory, again and again.
(module
  (memory (export "memory") 512)
  (func (export "_start") (loop $l (memory.fill (i32.const 0) (i32.const 7) (i32.const 0x2000000)) (br $l))))
