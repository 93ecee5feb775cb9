;; fib: shallow recursion without a loop, which takes centuries.
(module
  (memory (export "memory") 1)
  (func $fib (param i64) (result i64)
    (if (result i64) (i64.lt_u (local.get 0) (i64.const 2))
      (then (local.get 0))
      (else (i64.add
        (call $fib (i64.sub (local.get 0) (i64.const 1)))
        (call $fib (i64.sub (local.get 0) (i64.const 2)))))))
  (func (export "_start") (drop (call $fib (i64.const 90)))))
