package keyfile

// ReadAs is Read by another user.
func ReadAs(name string, most int64, self int) ([]byte, error) {
	return read(name, most, anything, 0, self)
}
