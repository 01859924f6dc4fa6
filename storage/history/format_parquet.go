//go:build cgo

package history

import (
	"encoding/binary"
	"io"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// groupRows is how many rows make a row group.
const groupRows = 100_000

// parquetEncoder writes an answer as a Parquet file. As in Arrow, nested values, JSON and INTERVAL
// are text in it; timestamps are microseconds in UTC; HUGEINT is DECIMAL(38,0).
type parquetEncoder struct {
	w    io.Writer
	file *file.Writer
	rest *row.Batch // rows that make no row group yet
}

func (e *parquetEncoder) begin(_ []wireField, fields []row.Field) error {
	nodes := make(schema.FieldList, len(fields))
	for i, f := range fields {
		var err error
		if nodes[i], err = parquetNode(f); err != nil {
			return err
		}
	}
	root, err := schema.NewGroupNode("rows", parquet.Repetitions.Required, nodes, -1)
	if err != nil {
		return err
	}
	e.file = file.NewParquetWriter(e.w, root, file.WithWriterProps(parquet.NewWriterProperties(
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCreatedBy("tidemark"),
	)))
	e.rest = row.NewBatch(fields, 0)
	return nil
}

// decimalBytes holds 38 digits.
const decimalBytes = 16

func parquetNode(f row.Field) (schema.Node, error) {
	leaf := func(t parquet.Type, logical schema.LogicalType, length int) (schema.Node, error) {
		if logical == nil {
			logical = schema.NoLogicalType{}
		}
		return schema.NewPrimitiveNodeLogical(f.Name, parquet.Repetitions.Optional, logical, t, length, -1)
	}
	switch f.Type.Kind {
	case row.Boolean:
		return leaf(parquet.Types.Boolean, nil, -1)
	case row.TinyInt:
		return leaf(parquet.Types.Int32, schema.NewIntLogicalType(8, true), -1)
	case row.SmallInt:
		return leaf(parquet.Types.Int32, schema.NewIntLogicalType(16, true), -1)
	case row.Integer:
		return leaf(parquet.Types.Int32, nil, -1)
	case row.BigInt:
		return leaf(parquet.Types.Int64, nil, -1)
	case row.HugeInt:
		return leaf(parquet.Types.FixedLenByteArray, schema.NewDecimalLogicalType(38, 0), decimalBytes)
	case row.Float:
		return leaf(parquet.Types.Float, nil, -1)
	case row.Double:
		return leaf(parquet.Types.Double, nil, -1)
	case row.Decimal:
		return leaf(parquet.Types.FixedLenByteArray, schema.NewDecimalLogicalType(int32(f.Type.Width), int32(f.Type.Scale)), decimalBytes)
	case row.Blob:
		return leaf(parquet.Types.ByteArray, nil, -1)
	case row.Date:
		return leaf(parquet.Types.Int32, schema.DateLogicalType{}, -1)
	case row.Timestamp:
		return leaf(parquet.Types.Int64, schema.NewTimestampLogicalType(true, schema.TimeUnitMicros), -1)
	}
	return leaf(parquet.Types.ByteArray, schema.StringLogicalType{}, -1)
}

func (e *parquetEncoder) rows(_ []row.Field, b *row.Batch) error {
	for c, v := range b.Cols {
		if err := fits38(v); err != nil {
			return err
		}
		e.rest.Cols[c].AppendAll(v)
	}
	e.rest.Len += b.Len
	if e.rest.Len < groupRows {
		return nil
	}
	return e.flush()
}

// fits38 refuses whole numbers with more digits than a decimal takes, before anything is written.
func fits38(v *row.Vector) error {
	for i := range v.Len() {
		if v.Type.Kind == row.HugeInt && !v.IsNull(i) && !decimal128.New(v.I128[i].Hi, v.I128[i].Lo).FitsInPrecision(38) {
			return problem.New(422, "out_of_range", "%s has more than the 38 digits that Parquet takes", v.I128[i]).
				WithHint("cast the column to VARCHAR, or ask for JSON")
		}
	}
	return nil
}

// flush writes the rows that have gathered as a row group.
func (e *parquetEncoder) flush() error {
	group, err := e.file.AppendRowGroupChecked()
	if err != nil {
		return err
	}
	for _, v := range e.rest.Cols {
		column, err := group.NextColumn()
		if err == nil {
			err = writeColumn(column, v)
		}
		if err == nil {
			err = column.Close()
		}
		if err != nil {
			return err
		}
	}
	fields := make([]row.Field, len(e.rest.Cols))
	for i, v := range e.rest.Cols {
		fields[i].Type = v.Type
	}
	e.rest = row.NewBatch(fields, 0)
	return group.Close()
}

// column is a writer of one kind of values: those that are not null, and for each row 1, or 0 where
// it is null.
type column[T any] interface {
	WriteBatch(values []T, defined, repeated []int16) (int64, error)
}

func put[T any](to column[T], v *row.Vector, value func(i int) T) error {
	defined := make([]int16, v.Len())
	values := make([]T, 0, v.Len())
	for i := range v.Len() {
		if !v.IsNull(i) {
			defined[i] = 1
			values = append(values, value(i))
		}
	}
	_, err := to.WriteBatch(values, defined, nil)
	return err
}

func writeColumn(to file.ColumnChunkWriter, v *row.Vector) error {
	switch to := to.(type) {
	case *file.BooleanColumnChunkWriter:
		return put(to, v, func(i int) bool { return v.I64[i] != 0 })
	case *file.Int32ColumnChunkWriter:
		return put(to, v, func(i int) int32 { return int32(v.I64[i]) })
	case *file.Int64ColumnChunkWriter:
		return put(to, v, func(i int) int64 { return v.I64[i] })
	case *file.Float32ColumnChunkWriter:
		return put(to, v, func(i int) float32 { return float32(v.F64[i]) })
	case *file.Float64ColumnChunkWriter:
		return put(to, v, func(i int) float64 { return v.F64[i] })
	case *file.FixedLenByteArrayColumnChunkWriter:
		return put(to, v, func(i int) parquet.FixedLenByteArray {
			var x row.Int128
			if v.Type.Class() == row.Int64Class {
				x = row.FromInt64(v.I64[i])
			} else {
				x = v.I128[i]
			}
			b := binary.BigEndian.AppendUint64(make([]byte, 0, decimalBytes), uint64(x.Hi))
			return binary.BigEndian.AppendUint64(b, x.Lo)
		})
	case *file.ByteArrayColumnChunkWriter:
		return put(to, v, func(i int) parquet.ByteArray {
			switch v.Type.Kind {
			case row.List, row.Struct:
				return row.AppendJSON(nil, v, i)
			case row.Interval:
				return parquet.ByteArray(row.TextOf(v, i))
			}
			return parquet.ByteArray(v.Str[i])
		})
	}
	return problem.New(500, "internal", "a column of type %s has no place in Parquet", v.Type)
}

func (e *parquetEncoder) end(bool) error {
	if e.rest.Len > 0 {
		if err := e.flush(); err != nil {
			return err
		}
	}
	return e.file.Close()
}
