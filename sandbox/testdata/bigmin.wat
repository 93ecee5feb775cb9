;; Needs 128 MiB to start.
(module (memory (export "memory") 2048) (func (export "_start")))
