// Package catalog keeps the definitions of everything that has a name.
//
// Streams, views and alerts share one namespace, because all of them are relations that SQL can
// read; all other kinds have each their own. A definition is an opaque JSON document.
//
//	I1  A name belongs to one relation at a time; an internal number never to two things.
//	I2  Put and Delete return after the fsync of their write.
package catalog
