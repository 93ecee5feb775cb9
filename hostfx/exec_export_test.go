package hostfx

// SetKernel has h believe that the kernel can confine so much and no more.
func SetKernel(h *Host, abi int, filter bool) {
	h.exec.kernel = func() confinement { return confinement{abi, filter} }
}

// ForgetMain undoes that Main was called, until again is.
func ForgetMain() (again func()) {
	was := mainCalled.Swap(false)
	return func() { mainCalled.Store(was) }
}

// Stuck is a process of the call's session that nothing ends before free is called.
func Stuck(fx *Effects, path string) (id string, free func(), err error) {
	p, _, err := fx.caller.admit(Command{Path: path}, "", 1)
	if err != nil {
		return "", nil, err
	}
	stop := p.stop
	p.stop = func(error) {}
	return p.id, func() { stop(nil); p.ended(nil, ErrEnded) }, nil
}
