package guest

//go:wasmimport callgate http
func importHTTP(request *byte, length uint32, answer *uint32) uint32

//go:wasmimport callgate fs_read
func importRead(path *byte, length uint32, answer *uint32) uint32

//go:wasmimport callgate fs_list
func importList(path *byte, length uint32, answer *uint32) uint32

//go:wasmimport callgate answer
func importAnswer(to *byte, length uint32) uint32

//go:wasmimport callgate log
func importLog(line *byte, length uint32) uint32

// at is where b begins.
func at(b []byte) *byte {
	if len(b) == 0 {
		return nil
	}
	return &b[0]
}

func failure(number uint32) error {
	if number == 0 {
		return nil
	}
	return Errno(number)
}

func hostHTTP(req []byte, length *uint32) error {
	return failure(importHTTP(at(req), uint32(len(req)), length))
}

func hostReadFile(path []byte, length *uint32) error {
	return failure(importRead(at(path), uint32(len(path)), length))
}

func hostList(path []byte, length *uint32) error {
	return failure(importList(at(path), uint32(len(path)), length))
}

func hostAnswer(to []byte) error { return failure(importAnswer(at(to), uint32(len(to)))) }

func hostLog(line []byte) error { return failure(importLog(at(line), uint32(len(line)))) }
