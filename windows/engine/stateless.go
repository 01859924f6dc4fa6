package engine

import "tidemark/windows"

// stateless is the part of an operator that keeps nothing: it only waits for its step.
type stateless struct{}

func (stateless) settle(_, _ windows.Micros) {}
func (stateless) correct(windows.Micros)     {}
func (stateless) flush()                     {}
func (stateless) forget(windows.Micros)      {}
func (stateless) pending() bool              { return false }
func (stateless) save(*writes)               {}
func (stateless) load(_, _ []byte) error     { return errState }
func (stateless) loaded() error              { return nil }
