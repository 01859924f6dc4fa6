// Package wire holds the JSON forms that the endpoints of web/api and the frames of web/live share.
package wire

import (
	"strconv"

	"tidemark/storage/row"
	"tidemark/stream"
)

// AppendEvent appends event i of a batch as readers get it: its place, its times, its key and the
// event itself, as it came.
func AppendEvent(dst []byte, b *stream.Batch, i int) []byte {
	dst = append(dst, `{"partition":`...)
	dst = strconv.AppendInt(dst, int64(b.Partition), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, int64(b.Offset(i)), 10)
	dst = append(dst, `,"time":"`...)
	dst = row.FormatTimestamp(dst, b.Times[i])
	dst = append(dst, `","append_time":"`...)
	dst = row.FormatTimestamp(dst, b.AppendTime)
	dst = append(dst, `","key":`...)
	if b.Keys == nil || b.Keys.IsNull(i) {
		dst = append(dst, "null"...)
	} else {
		dst = row.AppendJSONString(dst, b.Keys.Str[i])
	}
	dst = append(dst, `,"event":`...)
	if raw := b.Raw(i); len(raw) > 0 {
		dst = append(dst, raw...)
	} else {
		dst = append(dst, "null"...)
	}
	return append(dst, '}')
}
