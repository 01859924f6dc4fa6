package agg

// New binds an aggregate. Errors are *Unknown and *Mismatch.
func New(s Spec) (*Func, error) { return nil, &Unknown{s.Name} }

// Known reports whether there is an aggregate of this name.
func Known(name string) bool { return false }

// Names returns the names of all aggregates, in order.
func Names() []string { return nil }
