;; Makes a reference to a function again and again.
(module (memory (export "memory") 1) (func $f) (elem declare func $f)
  (func (export "_start") (loop $l (drop (ref.func $f)) (br $l))))
