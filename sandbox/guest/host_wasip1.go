package guest

//go:wasmimport callgate http
func importHTTP(request *byte, length uint32, answer *uint32) uint32

//go:wasmimport callgate fs_read
func importRead(path *byte, length uint32, answer *uint32) uint32

//go:wasmimport callgate fs_list
func importList(path *byte, length uint32, answer *uint32) uint32

//go:wasmimport callgate fs_stat
func importStat(path *byte, length uint32, answer *uint32) uint32

//go:wasmimport callgate fs_write
func importWrite(path *byte, length uint32, content *byte, size uint32) uint32

//go:wasmimport callgate fs_append
func importAppend(path *byte, length uint32, content *byte, size uint32) uint32

//go:wasmimport callgate fs_mkdir
func importMkdir(path *byte, length uint32) uint32

//go:wasmimport callgate fs_remove
func importRemove(path *byte, length uint32) uint32

//go:wasmimport callgate fs_rename
func importRename(path *byte, length uint32, to *byte, size uint32) uint32

//go:wasmimport callgate exec
func importExec(request *byte, length uint32, answer *uint32) uint32

//go:wasmimport callgate exec_start
func importStart(request *byte, length uint32, answer *uint32) uint32

//go:wasmimport callgate exec_output
func importOutput(id *byte, length uint32, answer *uint32) uint32

//go:wasmimport callgate exec_kill
func importKill(id *byte, length uint32) uint32

//go:wasmimport callgate plan
func importPlan(answer *uint32) uint32

//go:wasmimport callgate task_register
func importRegister(task *byte, length uint32) uint32

//go:wasmimport callgate task_advance
func importAdvance(id *byte, length uint32, status *byte, size uint32) uint32

//go:wasmimport callgate task_replan
func importReplan(id *byte, length uint32, tasks *byte, size uint32) uint32

//go:wasmimport callgate charge
func importCharge(name *byte, length uint32, units int64) uint32

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

func hostStat(path []byte, length *uint32) error {
	return failure(importStat(at(path), uint32(len(path)), length))
}

func hostWriteFile(path, content []byte) error {
	return failure(importWrite(at(path), uint32(len(path)), at(content), uint32(len(content))))
}

func hostAppendFile(path, content []byte) error {
	return failure(importAppend(at(path), uint32(len(path)), at(content), uint32(len(content))))
}

func hostMkdir(path []byte) error { return failure(importMkdir(at(path), uint32(len(path)))) }

func hostRemove(path []byte) error { return failure(importRemove(at(path), uint32(len(path)))) }

func hostRename(path, to []byte) error {
	return failure(importRename(at(path), uint32(len(path)), at(to), uint32(len(to))))
}

func hostExec(req []byte, length *uint32) error {
	return failure(importExec(at(req), uint32(len(req)), length))
}

func hostStart(req []byte, length *uint32) error {
	return failure(importStart(at(req), uint32(len(req)), length))
}

func hostOutput(id []byte, length *uint32) error {
	return failure(importOutput(at(id), uint32(len(id)), length))
}

func hostKill(id []byte) error { return failure(importKill(at(id), uint32(len(id)))) }

func hostPlan(length *uint32) error { return failure(importPlan(length)) }

func hostRegister(task []byte) error { return failure(importRegister(at(task), uint32(len(task)))) }

func hostAdvance(id, status []byte) error {
	return failure(importAdvance(at(id), uint32(len(id)), at(status), uint32(len(status))))
}

func hostReplan(id, tasks []byte) error {
	return failure(importReplan(at(id), uint32(len(id)), at(tasks), uint32(len(tasks))))
}

func hostCharge(name []byte, units int64) error {
	return failure(importCharge(at(name), uint32(len(name)), units))
}

func hostAnswer(to []byte) error { return failure(importAnswer(at(to), uint32(len(to)))) }

func hostLog(line []byte) error { return failure(importLog(at(line), uint32(len(line)))) }
