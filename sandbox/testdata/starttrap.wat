;; Traps before it is even started.
(module (func $s (unreachable)) (start $s) (func (export "_start")))
