;; Exports a _start that takes something.
(module (func (export "_start") (param i32)))
