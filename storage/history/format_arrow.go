//go:build cgo

package history

import (
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// arrowEncoder writes an answer as an Arrow IPC stream. Nested values, JSON and INTERVAL are text
// in it; timestamps are microseconds in UTC; HUGEINT is DECIMAL(38,0).
type arrowEncoder struct {
	w       io.Writer
	stream  *ipc.Writer
	builder *array.RecordBuilder
}

func (e *arrowEncoder) begin(columns []wireField, fields []row.Field) error {
	out := make([]arrow.Field, len(fields))
	for i, f := range fields {
		out[i] = arrow.Field{
			Name: f.Name, Type: arrowType(f.Type), Nullable: true,
			Metadata: arrow.NewMetadata([]string{"type"}, []string{columns[i].Type}),
		}
	}
	schema := arrow.NewSchema(out, nil)
	e.builder = array.NewRecordBuilder(memory.DefaultAllocator, schema)
	e.stream = ipc.NewWriter(e.w, ipc.WithSchema(schema))
	return nil
}

func arrowType(t row.Type) arrow.DataType {
	switch t.Kind {
	case row.Boolean:
		return arrow.FixedWidthTypes.Boolean
	case row.TinyInt:
		return arrow.PrimitiveTypes.Int8
	case row.SmallInt:
		return arrow.PrimitiveTypes.Int16
	case row.Integer:
		return arrow.PrimitiveTypes.Int32
	case row.BigInt:
		return arrow.PrimitiveTypes.Int64
	case row.HugeInt:
		return &arrow.Decimal128Type{Precision: 38}
	case row.Float:
		return arrow.PrimitiveTypes.Float32
	case row.Double:
		return arrow.PrimitiveTypes.Float64
	case row.Decimal:
		return &arrow.Decimal128Type{Precision: int32(t.Width), Scale: int32(t.Scale)}
	case row.Blob:
		return arrow.BinaryTypes.Binary
	case row.Date:
		return arrow.FixedWidthTypes.Date32
	case row.Timestamp:
		return arrow.FixedWidthTypes.Timestamp_us
	}
	return arrow.BinaryTypes.String
}

func (e *arrowEncoder) rows(fields []row.Field, b *row.Batch) error {
	for c, v := range b.Cols {
		builder := e.builder.Field(c)
		for i := range b.Len {
			if v.IsNull(i) {
				builder.AppendNull()
				continue
			}
			if err := appendArrow(builder, v, i); err != nil {
				return err
			}
		}
	}
	rec := e.builder.NewRecordBatch()
	defer rec.Release()
	return e.stream.Write(rec)
}

// appendArrow adds a value that is not null.
func appendArrow(builder array.Builder, v *row.Vector, i int) error {
	switch b := builder.(type) {
	case *array.BooleanBuilder:
		b.Append(v.I64[i] != 0)
	case *array.Int8Builder:
		b.Append(int8(v.I64[i]))
	case *array.Int16Builder:
		b.Append(int16(v.I64[i]))
	case *array.Int32Builder:
		b.Append(int32(v.I64[i]))
	case *array.Int64Builder:
		b.Append(v.I64[i])
	case *array.Float32Builder:
		b.Append(float32(v.F64[i]))
	case *array.Float64Builder:
		b.Append(v.F64[i])
	case *array.Date32Builder:
		b.Append(arrow.Date32(v.I64[i]))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.I64[i]))
	case *array.Decimal128Builder:
		x := row.Int128{}
		if v.Type.Class() == row.Int64Class {
			x = row.FromInt64(v.I64[i])
		} else {
			x = v.I128[i]
		}
		if n := decimal128.New(x.Hi, x.Lo); v.Type.Kind != row.HugeInt || n.FitsInPrecision(38) {
			b.Append(n)
			break
		}
		return problem.New(422, "out_of_range", "%s has more than the 38 digits that Arrow takes", x).
			WithHint("cast the column to VARCHAR, or ask for JSON")
	case *array.BinaryBuilder:
		b.Append([]byte(v.Str[i]))
	case *array.StringBuilder:
		switch v.Type.Kind {
		case row.List, row.Struct:
			b.Append(string(row.AppendJSON(nil, v, i)))
		case row.Interval:
			b.Append(row.TextOf(v, i))
		default:
			b.Append(v.Str[i])
		}
	}
	return nil
}

func (e *arrowEncoder) end(bool) error {
	e.builder.Release()
	return e.stream.Close()
}
