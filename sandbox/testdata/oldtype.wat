;; log of callgate with another type.
(module
  (import "callgate" "log" (func (param i32 i32)))
  (memory 1)
  (func (export "_start")))
