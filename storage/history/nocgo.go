//go:build !cgo

package history

// Tidemark keeps its history in DuckDB, which is C++. A build without cgo stops here, and the name
// that the compiler does not know says what to do.
var _ = build_tidemark_with_CGO_ENABLED_1_and_a_Cxx_compiler_such_as_gxx
