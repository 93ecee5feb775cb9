;; Wants a function of the host with another type.
(module (import "wasi_snapshot_preview1" "proc_exit" (func (param i64))) (memory (export "memory") 1) (func (export "_start")))
