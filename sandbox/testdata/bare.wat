;; Asks the host for something and has no memory for the answer.
(module
  (import "callgate" "answer" (func $answer (param i32 i32) (result i32)))
  (func (export "callgate_call") (result i32) (call $answer (i32.const 0) (i32.const 0))))
