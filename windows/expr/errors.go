package expr

import (
	"fmt"
	"slices"
	"strings"

	"tidemark/storage/row"
)

// Failure is why one row has no value. Codes are out_of_range, conversion and invalid_input,
// messages are DuckDB's.
type Failure struct {
	Row     int
	Code    string
	Message string
}

func outOfRange(format string, args ...any) *Failure {
	return &Failure{Code: "out_of_range", Message: fmt.Sprintf(format, args...)}
}

func conversion(format string, args ...any) *Failure {
	return &Failure{Code: "conversion", Message: fmt.Sprintf(format, args...)}
}

func invalidInput(format string, args ...any) *Failure {
	return &Failure{Code: "invalid_input", Message: fmt.Sprintf(format, args...)}
}

// Errors collects the rows of a batch that failed, the first failure of each. The zero value is
// ready for use.
type Errors struct {
	failed row.Bitmap
	list   []Failure
}

// Set notes that a row failed; a row that has failed already keeps its reason.
func (e *Errors) Set(row int, code, msg string) {
	if e.failed.Get(row) {
		return
	}
	e.failed.Set(row)
	e.list = append(e.list, Failure{row, code, msg})
}

// Failed reports whether a row has failed.
func (e *Errors) Failed(row int) bool { return e.failed.Get(row) }

// Any reports whether a row has failed.
func (e *Errors) Any() bool { return len(e.list) > 0 }

// Len returns how many rows have failed.
func (e *Errors) Len() int { return len(e.list) }

// Each calls f for each failure in the order of rows.
func (e *Errors) Each(f func(Failure)) {
	slices.SortFunc(e.list, func(a, b Failure) int { return a.Row - b.Row })
	for _, x := range e.list {
		f(x)
	}
}

// Reset forgets all failures.
func (e *Errors) Reset() {
	clear(e.failed)
	e.failed, e.list = e.failed[:0], e.list[:0]
}

// Mismatch says that a function exists, but not for these types.
type Mismatch struct {
	// Name is the function or operator; empty when values of several types don't go together.
	Name  string
	Types []row.Type
	// Takes are the argument lists that the function has.
	Takes []string
	// Reason replaces the message where types alone don't say it.
	Reason string
}

func (m *Mismatch) Error() string {
	types := make([]string, len(m.Types))
	for i, t := range m.Types {
		types[i] = t.String()
	}
	switch {
	case m.Reason != "":
		return m.Reason
	case m.Name == "":
		return fmt.Sprintf("values of the types %s don't go together without a cast", strings.Join(types, " and "))
	case len(m.Takes) == 0:
		return fmt.Sprintf("%s does not take (%s)", m.Name, strings.Join(types, ", "))
	}
	return fmt.Sprintf("%s does not take (%s); it takes %s", m.Name, strings.Join(types, ", "), strings.Join(m.Takes, " or "))
}

// Unknown says that there is no function of this name.
type Unknown struct {
	Name string
	// Similar are names that exist and look alike.
	Similar []string
}

func (u *Unknown) Error() string {
	if len(u.Similar) == 0 {
		return fmt.Sprintf("there is no function %s", u.Name)
	}
	return fmt.Sprintf("there is no function %s; did you mean %s?", u.Name, strings.Join(u.Similar, " or "))
}

func mismatch(name string, args []*Expr) *Mismatch {
	m := &Mismatch{Name: name}
	for _, a := range args {
		m.Types = append(m.Types, a.Type)
	}
	return m
}
