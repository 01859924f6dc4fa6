package ingest

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"tidemark/storage/row"
	"tidemark/stream"
)

// partitionOf is where events with a key go. It never changes (I5).
func partitionOf(key string, partitions int) stream.Partition {
	return stream.Partition(xxhash.Sum64String(key) % uint64(partitions))
}

// keyText is a key as text: the content of a string, else the JSON text as it came.
func keyText(value []byte) string {
	if value[0] == '"' {
		s, _ := row.UnquoteJSON(value) // the scanner has found it good
		return s
	}
	return string(value)
}

// idHash is the hash of an id (I5). Ids compare as JSON values: 1 and 1.0 are one id, 1 and "1"
// are two, and the order of an object's members is nothing. scratch is memory to use again.
func idHash(value, scratch []byte) (id stream.EventID, buf []byte) {
	buf = appendCanonical(scratch[:0], value)
	sum := sha256.Sum256(buf)
	copy(id[:], sum[:])
	return id, buf
}

// appendCanonical writes a JSON value so that equal values have equal bytes: a letter for the kind,
// then the content, which ends by itself.
func appendCanonical(dst, value []byte) []byte {
	switch value[0] {
	case '"':
		if n := plainText(value[1:]); n == len(value)-2 {
			return appendSized(append(dst, 's'), value[1:1+n])
		}
		s, _ := row.UnquoteJSON(value)
		return appendSized(append(dst, 's'), s)
	case 'n', 't', 'f':
		return append(dst, value[0])
	case '[':
		dst = append(dst, '[')
		_ = row.EachElement(value, func(e []byte) error {
			dst = appendCanonical(dst, e)
			return nil
		})
		return append(dst, ']')
	case '{':
		var members [][]byte
		_ = row.EachMember(value, func(name string, v []byte) error {
			members = append(members, appendCanonical(appendSized(nil, name), v))
			return nil
		})
		slices.SortStableFunc(members, bytes.Compare)
		dst = append(dst, '{')
		for _, m := range members {
			dst = append(dst, m...)
		}
		return append(dst, '}')
	}
	return append(row.AppendCanonicalNumber(append(dst, 'd'), value), ';')
}

// appendSized writes a text so that it ends by itself.
func appendSized[T string | []byte](dst []byte, s T) []byte {
	dst = strconv.AppendInt(dst, int64(len(s)), 10)
	dst = append(dst, ':')
	return append(dst, s...)
}
