;; Loops before it is even started.
(module (func $s (loop $l (br $l))) (start $s) (func (export "_start")))
