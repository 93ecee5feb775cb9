;; A function that callgate does not have.
(module
  (import "callgate" "eval" (func (param i32 i32 i32) (result i32)))
  (memory 1)
  (func (export "_start")))
