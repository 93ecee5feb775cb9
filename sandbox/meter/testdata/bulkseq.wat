(module (memory (export "memory") 64)
 (func $f (memory.fill (i32.const 0) (i32.const 7) (i32.const 0x400000))) (func $g (call $f)(call $f)(call $f)(call $f)(call $f)(call $f)(call $f)(call $f)) (func $h (call $g)(call $g)(call $g)(call $g)(call $g)(call $g)(call $g)(call $g))
 (func $i (call $h)(call $h)(call $h)(call $h)(call $h)(call $h)(call $h)(call $h))
 (func (export "_start") (call $i)))
