;; grow: asks for one more page of memory, without end.
(module
  (memory (export "memory") 1)
  (func (export "_start") (loop $l (drop (memory.grow (i32.const 1))) (br $l))))
