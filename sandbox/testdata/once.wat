;; Asks for what never comes, once, and is content with any end of that.
(module
  (import "callgate" "http" (func $http (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{\22method\22:\22GET\22,\22url\22:\22https://api.example.com/hang\22}\0a") ;; 54 bytes
  (func (export "callgate_call") (result i32)
    (drop (call $http (i32.const 0) (i32.const 54) (i32.const 64)))
    (i32.const 0)))
