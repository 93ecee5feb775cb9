;; The function that the host injects, which no guest may name.
(module
  (import "callgate:meter" "yield" (func (param i64 i64) (result i64)))
  (memory 1)
  (func (export "_start")))
