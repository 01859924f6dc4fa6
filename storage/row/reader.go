package row

import "encoding/binary"

// Reader reads encoded values from the front of bytes that may be damaged: after the first failure
// everything it gives is zero, so that a decoder asks once, at its end.
type Reader struct {
	Rest   []byte
	Failed bool
}

// Done reports whether everything was read and nothing failed.
func (r *Reader) Done() bool { return !r.Failed && len(r.Rest) == 0 }

// Bytes returns the next n bytes, in the memory that is read from.
func (r *Reader) Bytes(n int) []byte {
	if r.Failed || n < 0 || n > len(r.Rest) {
		r.Failed = true
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Byte returns the next byte.
func (r *Reader) Byte() byte {
	if b := r.Bytes(1); !r.Failed {
		return b[0]
	}
	return 0
}

// Uvarint returns the next unsigned varint.
func (r *Reader) Uvarint() uint64 {
	x, n := binary.Uvarint(r.Rest)
	if r.Failed || n <= 0 {
		r.Failed = true
		return 0
	}
	r.Rest = r.Rest[n:]
	return x
}

// Varint returns the next zigzag varint.
func (r *Reader) Varint() int64 {
	x, n := binary.Varint(r.Rest)
	if r.Failed || n <= 0 {
		r.Failed = true
		return 0
	}
	r.Rest = r.Rest[n:]
	return x
}

// Length returns the next unsigned varint, which must be at most limit.
func (r *Reader) Length(limit int) int {
	x := r.Uvarint()
	if r.Failed || x > uint64(limit) {
		r.Failed = true
		return 0
	}
	return int(x)
}
