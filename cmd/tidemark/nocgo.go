//go:build !cgo

package main

// DuckDB is linked in as a C++ library, so a build without cgo can't work. The line below makes
// the compiler say so in words instead of an error in somebody else's file.
var _ = Tidemark_needs_cgo__install_a_C_plus_plus_compiler_such_as_gpp_and_build_with_CGO_ENABLED_1
