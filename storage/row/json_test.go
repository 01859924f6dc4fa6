package row

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// parsed reads text into a column of the type and writes it out again.
func parsed(t *testing.T, typ, text string) (string, error) {
	t.Helper()
	ty, err := ParseType(typ)
	if err != nil {
		t.Fatal(err)
	}
	v := NewVector(ty, 1)
	if err := ParseJSONValue(v, []byte(text)); err != nil {
		if v.Len() != 0 {
			t.Errorf("%s into %s: an error and a value", text, typ)
		}
		return "", err
	}
	if v.Len() != 1 {
		t.Fatalf("%s into %s: %d values", text, typ, v.Len())
	}
	return string(AppendJSON(nil, v, 0)), nil
}

func TestValuesComeBackFromTheirColumn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typ, text, want string }{
		{"BOOLEAN", "true", "true"},
		{"BOOLEAN", "null", "null"},
		{"BIGINT", "9007199254740993", "9007199254740993"},
		{"BIGINT", "-9223372036854775808", "-9223372036854775808"},
		{"BIGINT", "5.0", "5"},
		{"BIGINT", "1e3", "1000"},
		{"BIGINT", "-0", "0"},
		{"BIGINT", "12.50e1", "125"},
		{"TINYINT", "-128", "-128"},
		{"HUGEINT", "170141183460469231731687303715884105727", "170141183460469231731687303715884105727"},
		{"HUGEINT", "-170141183460469231731687303715884105728", "-170141183460469231731687303715884105728"},
		{"DOUBLE", "1", "1"},
		{"DOUBLE", "0.1", "0.1"},
		{"DOUBLE", "-0.0", "0"},
		{"DOUBLE", "1e-400", "0"},
		{"DOUBLE", "-1e-400", "0"},
		{"DOUBLE", "1e21", "1e+21"},
		{"DOUBLE", "18446744073709551616", "18446744073709552000"},
		{"DOUBLE", "1.7976931348623157e308", "1.7976931348623157e+308"},
		{"FLOAT", "0.1", "0.1"},
		{"DECIMAL(10,2)", "12.5", "12.50"},
		{"DECIMAL(10,2)", "-0.05", "-0.05"},
		{"DECIMAL(10,2)", "12.500", "12.50"},
		{"DECIMAL(10,0)", "7", "7"},
		{"DECIMAL(38,10)", "1234567890123456789012345678.0123456789", "1234567890123456789012345678.0123456789"},
		{"VARCHAR", `"a\u0000\"\n\u00e9\ud83d\ude00"`, `"a\u0000\"\né😀"`},
		{"VARCHAR", `"\u2028"`, `"\u2028"`},
		{"DATE", `"2024-02-29"`, `"2024-02-29"`},
		{"TIMESTAMP", `"2024-01-01T12:00:00+01:00"`, `"2024-01-01T11:00:00Z"`},
		{"TIMESTAMP", `1700000000123`, `"2023-11-14T22:13:20.123Z"`},
		{"JSON", `{"a": [1, 2.50]}`, `{"a": [1, 2.50]}`},
		{"JSON", `"x"`, `"x"`},
		{"JSON", `null`, `null`},
		{"BLOB", `"AAEC"`, `"AAEC"`},
		{"BIGINT[]", "[1, 2 ,null]", "[1,2,null]"},
		{"BIGINT[]", "[ ]", "[]"},
		{"VARCHAR[][]", `[["a,]"],[],null]`, `[["a,]"],[],null]`},
		{"STRUCT(os VARCHAR, v BIGINT)", `{"v": 3, "os": "linux", "more": [1]}`, `{"os":"linux","v":3}`},
		{"STRUCT(os VARCHAR)", `{"os":"first","os":"second"}`, `{"os":"first"}`},
		{"STRUCT(os VARCHAR)", `{}`, `{"os":null}`},
		{"STRUCT(d STRUCT(k BIGINT[]))", `{"d":{"k":[1]}}`, `{"d":{"k":[1]}}`},
	} {
		got, err := parsed(t, c.typ, c.text)
		if err != nil || got != c.want {
			t.Errorf("%s into %s: %s, %v, want %s", c.text, c.typ, got, err, c.want)
		}
	}
}

func TestValuesThatDoNotFitSayWhatWould(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typ, text, says string }{
		{"BOOLEAN", "1", "the column is BOOLEAN"},
		{"BIGINT", `"5"`, `"5" is a string, the column is BIGINT`},
		{"BIGINT", "5.5", "not a whole number"},
		{"BIGINT", "9223372036854775808", "outside the range of BIGINT"},
		{"BIGINT", "1e400", "outside the range of BIGINT"},
		{"BIGINT", "1e1000000000", "outside the range of BIGINT"},
		{"BIGINT", "true", "is a boolean"},
		{"TINYINT", "128", "outside the range of TINYINT"},
		{"HUGEINT", "170141183460469231731687303715884105728", "outside the range of HUGEINT"},
		{"DOUBLE", "1e400", "outside the range of DOUBLE"},
		{"DOUBLE", "0.1e1000000000", "outside the range of DOUBLE"},
		{"DOUBLE", "1.7976931348623159e308", "outside the range of DOUBLE"},
		{"DOUBLE", `"NaN"`, "is a string"},
		{"FLOAT", "1e39", "outside the range of FLOAT"},
		{"DECIMAL(4,2)", "100", "outside the range of DECIMAL(4,2)"},
		{"DECIMAL(4,2)", "1.005", "more than 2 digits behind the point"},
		{"VARCHAR", "5", "5 is a number, the column is VARCHAR"},
		{"VARCHAR", `{"a":1}`, "is an object"},
		{"VARCHAR", `"\ud800"`, "lone surrogate"},
		{"VARCHAR", `"\ud800\u0041"`, "lone surrogate"},
		{"VARCHAR", "\"\xff\"", "not UTF-8"},
		{"DATE", `"2024-02-30"`, "not a date"},
		{"DATE", `5`, "the column is DATE"},
		{"TIMESTAMP", `"yesterday"`, `not a timestamp: "yesterday"`},
		{"TIMESTAMP", `true`, "is a boolean"},
		{"BLOB", `"*"`, "base64"},
		{"BIGINT[]", `[1,"a"]`, `element 1: "a" is a string`},
		{"BIGINT[]", `{}`, "is an object"},
		{"STRUCT(v BIGINT)", `{"v":"x"}`, `v: "x" is a string`},
		{"STRUCT(v BIGINT)", `[1]`, "is an array"},
	} {
		got, err := parsed(t, c.typ, c.text)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s into %s: %s, %v, want an error with %q", c.text, c.typ, got, err, c.says)
		}
	}
}

func TestFloatsThatAreNoNumbersAreStrings(t *testing.T) {
	t.Parallel()
	v := NewVector(Scalar(Double), 3)
	v.F64 = append(v.F64, math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1))
	got := ""
	for i := range v.F64 {
		got += string(AppendJSON(nil, v, i)) + " "
	}
	if want := `"NaN" "Infinity" "-Infinity" 0 `; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRowsAreObjectsInTheOrderOfTheirColumns(t *testing.T) {
	t.Parallel()
	fields := []Field{{"b", Scalar(BigInt)}, {`a"b`, Scalar(Varchar)}, {"d", DecimalType(5, 3)}}
	b := NewBatch(fields, 1)
	b.Cols[0].AppendInt64(1)
	b.Cols[1].AppendNull()
	b.Cols[2].AppendInt64(-7)
	b.Len = 1
	if got, want := string(AppendJSONRow(nil, fields, b, 0)), `{"b":1,"a\"b":null,"d":-0.007}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestStringsAgreeWithEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		mine := AppendJSONString(nil, s)
		var back string
		if err := json.Unmarshal(mine, &back); err != nil || back != s {
			t.Fatalf("%q was written as %s and read as %q, %v", s, mine, back, err)
		}
		theirs, _ := json.Marshal(s)
		if got, err := UnquoteJSON(theirs); err != nil || got != s {
			t.Fatalf("%s was read as %q, %v", theirs, got, err)
		}
	})
}

func TestDoublesAgreeWithEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		if math.IsInf(f, 0) || math.IsNaN(f) {
			return
		}
		text, _ := json.Marshal(f)
		got, err := ParseJSONFloat(text)
		if err != nil || got != f {
			t.Fatalf("%s was read as %v, %v", text, got, err)
		}
		if mine := string(FormatFloat(nil, f, 64)); f != 0 && mine != string(text) {
			// encoding/json writes e-09 as e-9; both give the same number back.
			if back, err := ParseJSONFloat([]byte(mine)); err != nil || back != f {
				t.Fatalf("%v was written as %s", f, mine)
			}
		}
	})
}
