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
