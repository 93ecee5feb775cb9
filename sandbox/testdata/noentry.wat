;; Exports nothing to call.
(module (memory (export "memory") 1) (func (export "main")))
