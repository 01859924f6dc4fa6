package runtime

import (
	"encoding/binary"
	"errors"
	"math"

	"tidemark/storage/row"
	"tidemark/windows"
)

// A row in the table of rows, version 1: the version, the status, the revision (uvarint), the row's
// time (8 bytes), then a value for each visible column: 0 for null, else 1 and an Int64 as zigzag
// varint, a Float64 as 8 bytes, an Int128 as 16 bytes, a String as its length (uvarint) and bytes.
const rowFormat = 1

var errBadRow = errors.New("a stored row is damaged or of a newer version")

// rowHead is what is known of a row besides its values.
type rowHead struct {
	status   windows.Status
	revision int32
	time     windows.Micros
}

func appendRow(dst []byte, h rowHead, b *row.Batch, i int) []byte {
	dst = append(dst, rowFormat, byte(h.status))
	dst = binary.AppendUvarint(dst, uint64(h.revision))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.time))
	return appendValues(dst, b, i)
}

func appendValues(dst []byte, b *row.Batch, i int) []byte {
	for _, v := range b.Cols {
		if v.IsNull(i) {
			dst = append(dst, 0)
			continue
		}
		dst = append(dst, 1)
		switch v.Type.Class() {
		case row.Float64Class:
			dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(v.F64[i]))
		case row.Int128Class:
			dst = binary.BigEndian.AppendUint64(dst, uint64(v.I128[i].Hi))
			dst = binary.BigEndian.AppendUint64(dst, v.I128[i].Lo)
		case row.StringClass:
			dst = binary.AppendUvarint(dst, uint64(len(v.Str[i])))
			dst = append(dst, v.Str[i]...)
		default:
			dst = binary.AppendVarint(dst, v.I64[i])
		}
	}
	return dst
}

// splitRow reads the head of a stored row and returns the values as they lie behind it.
func splitRow(src []byte) (rowHead, []byte, error) {
	if len(src) < 2 || src[0] != rowFormat {
		return rowHead{}, nil, errBadRow
	}
	h := rowHead{status: windows.Status(src[1])}
	revision, n := binary.Uvarint(src[2:])
	src = src[2+max(n, 0):]
	if n <= 0 || len(src) < 8 {
		return rowHead{}, nil, errBadRow
	}
	h.revision, h.time = int32(revision), int64(binary.BigEndian.Uint64(src))
	return h, src[8:], nil
}

// appendStored adds the values of a stored row to a batch of the view's columns.
func appendStored(b *row.Batch, src []byte) error {
	for _, v := range b.Cols {
		if len(src) == 0 {
			return errBadRow
		}
		null := src[0] == 0
		src = src[1:]
		if null {
			v.AppendNull()
			continue
		}
		switch v.Type.Class() {
		case row.Float64Class:
			if len(src) < 8 {
				return errBadRow
			}
			v.AppendFloat64(math.Float64frombits(binary.BigEndian.Uint64(src)))
			src = src[8:]
		case row.Int128Class:
			if len(src) < 16 {
				return errBadRow
			}
			v.AppendInt128(row.Int128{Hi: int64(binary.BigEndian.Uint64(src)), Lo: binary.BigEndian.Uint64(src[8:])})
			src = src[16:]
		case row.StringClass:
			size, n := binary.Uvarint(src)
			if n <= 0 || size > uint64(len(src)-n) {
				return errBadRow
			}
			v.AppendString(string(src[n : n+int(size)]))
			src = src[n+int(size):]
		default:
			x, n := binary.Varint(src)
			if n <= 0 {
				return errBadRow
			}
			v.AppendInt64(x)
			src = src[n:]
		}
	}
	if len(src) > 0 {
		return errBadRow
	}
	b.Len++
	return nil
}
