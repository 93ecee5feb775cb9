(module (memory (export "memory") 64) (func (export "_start") (loop (memory.fill (i32.const 0) (i32.const 7) (i32.const 0x400000)) br 0)))
