;; Asks for what never comes, for ever. Whatever the host answers, it goes on.
(module
  (import "callgate" "http" (func $http (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{\22method\22:\22GET\22,\22url\22:\22https://api.example.com/hang\22}\0a") ;; 54 bytes
  (func (export "_start")
    (loop $again
      (drop (call $http (i32.const 0) (i32.const 54) (i32.const 64)))
      (br $again))))
