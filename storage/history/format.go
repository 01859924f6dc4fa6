//go:build cgo

package history

import (
	"io"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// Format is the form of a query's answer.
type Format string

// The forms of an answer.
const (
	FormatJSON   Format = "json"
	FormatNDJSON Format = "ndjson"
	FormatCSV    Format = "csv"
	FormatArrow  Format = "arrow" // an IPC stream
	// FormatParquet is a Parquet file.
	FormatParquet Format = "parquet"
)

// ContentType is the media type of the form.
func (f Format) ContentType() string {
	switch f {
	case FormatNDJSON:
		return "application/x-ndjson"
	case FormatCSV:
		return "text/csv; charset=utf-8"
	case FormatArrow:
		return "application/vnd.apache.arrow.stream"
	case FormatParquet:
		return "application/vnd.apache.parquet"
	}
	return "application/json"
}

// encoder writes an answer: begin once, rows for each batch, end once.
type encoder interface {
	begin(columns []wireField, fields []row.Field) error
	rows(fields []row.Field, b *row.Batch) error
	end(truncated bool) error
}

func newEncoder(f Format, w io.Writer) (encoder, error) {
	switch f {
	case FormatJSON:
		return &jsonEncoder{w: w}, nil
	case FormatNDJSON:
		return &ndjsonEncoder{w: w}, nil
	case FormatCSV:
		return &csvEncoder{w: w}, nil
	case FormatArrow:
		return &arrowEncoder{w: w}, nil
	case FormatParquet:
		return &parquetEncoder{w: w}, nil
	}
	return nil, problem.New(406, "unknown_format", "an answer can't be given as %q", string(f)).
		WithHint("json, ndjson, csv, arrow and parquet are there")
}

// jsonEncoder writes {"columns":[{"name","type"}],"rows":[{…}],"truncated":false}. truncated comes
// last, because it is known last.
type jsonEncoder struct {
	w    io.Writer
	some bool
	buf  []byte
}

func (e *jsonEncoder) begin(columns []wireField, _ []row.Field) error {
	b := append(e.buf[:0], `{"columns":[`...)
	for i, c := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = row.AppendJSONString(b, c.Name)
		b = append(b, `,"type":`...)
		b = row.AppendJSONString(b, c.Type)
		b = append(b, '}')
	}
	e.buf = append(b, `],"rows":[`...)
	_, err := e.w.Write(e.buf)
	return err
}

func (e *jsonEncoder) rows(fields []row.Field, batch *row.Batch) error {
	b := e.buf[:0]
	for i := range batch.Len {
		if e.some {
			b = append(b, ',')
		}
		e.some = true
		b = append(b, '\n')
		b = row.AppendJSONRow(b, fields, batch, i)
	}
	e.buf = b
	_, err := e.w.Write(b)
	return err
}

func (e *jsonEncoder) end(truncated bool) error {
	tail := "],\"truncated\":false}\n"
	if truncated {
		tail = "],\"truncated\":true}\n"
	}
	if e.some {
		tail = "\n" + tail
	}
	_, err := io.WriteString(e.w, tail)
	return err
}

// ndjsonEncoder writes one object a line. That rows are missing stands in Stats only.
type ndjsonEncoder struct {
	w   io.Writer
	buf []byte
}

func (e *ndjsonEncoder) begin([]wireField, []row.Field) error { return nil }

func (e *ndjsonEncoder) rows(fields []row.Field, batch *row.Batch) error {
	b := e.buf[:0]
	for i := range batch.Len {
		b = append(row.AppendJSONRow(b, fields, batch, i), '\n')
	}
	e.buf = b
	_, err := e.w.Write(b)
	return err
}

func (e *ndjsonEncoder) end(bool) error { return nil }

// csvEncoder writes a line of names and a line a row, after RFC 4180 but for the bare line feed.
// NULL is nothing at all, an empty text is "".
type csvEncoder struct {
	w   io.Writer
	buf []byte
}

func (e *csvEncoder) begin(columns []wireField, _ []row.Field) error {
	b := e.buf[:0]
	for i, c := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCSVText(b, c.Name)
	}
	e.buf = append(b, '\n')
	_, err := e.w.Write(e.buf)
	return err
}

func (e *csvEncoder) rows(fields []row.Field, batch *row.Batch) error {
	b := e.buf[:0]
	var cell []byte
	for i := range batch.Len {
		for c, v := range batch.Cols {
			if c > 0 {
				b = append(b, ',')
			}
			switch {
			case v.IsNull(i):
			case v.Type.Kind == row.Varchar:
				b = appendCSVText(b, v.Str[i])
			case v.Type.Kind == row.JSON:
				b = appendCSVCell(b, v.Str[i])
			case v.Type.Kind == row.List || v.Type.Kind == row.Struct:
				cell = row.AppendJSON(cell[:0], v, i)
				b = appendCSVCell(b, string(cell))
			default:
				cell = row.AppendJSON(cell[:0], v, i)
				text := strings.Trim(string(cell), `"`)
				if v.Type.Kind == row.Blob {
					b = appendCSVText(b, text)
				} else {
					b = append(b, text...)
				}
			}
		}
		if len(batch.Cols) == 1 && batch.Cols[0].IsNull(i) {
			b = append(b, `""`...) // a blank line would be no row
		}
		b = append(b, '\n')
	}
	e.buf = b
	_, err := e.w.Write(b)
	return err
}

func (e *csvEncoder) end(bool) error { return nil }

// appendCSVText writes text that spreadsheets must not take for a formula.
func appendCSVText(dst []byte, s string) []byte {
	if s != "" && strings.IndexByte("=+-@\t\r", s[0]) >= 0 {
		s = "'" + s
	}
	return appendCSVCell(dst, s)
}

// appendCSVCell writes a cell, in quotes when it needs them.
func appendCSVCell(dst []byte, s string) []byte {
	if s != "" && !strings.ContainsAny(s, ",\"\r\n") && s[0] != ' ' && s[len(s)-1] != ' ' {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(s, `"`, `""`)...)
	return append(dst, '"')
}
