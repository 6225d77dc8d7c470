package keystest

import "github.com/guardd/guardd/keys"

// Twin is a Memory as a Subject. A Memory has no types that could be wrong, so
// a key of a wrong type is one that is missing.
type Twin struct{ *keys.Memory }

// SetWrongType implements WrongTyper.
func (t Twin) SetWrongType(key string) error { t.Forget(key); return nil }

// Persist implements Persister: there is no TTL to take away.
func (t Twin) Persist(string) error { return nil }
