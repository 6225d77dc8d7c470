package keystest

import "github.com/guardd/guardd/keys"

// Subject is a store under test. A subject may be shared by tests: every test
// uses key names of its own.
type Subject interface {
	keys.Store
	keys.Records
	keys.Tallies
	keys.Codes
}

// WrongTyper is a Subject that can put something of a wrong type under a key.
// Whatever was there before is gone, and the key counts as missing.
type WrongTyper interface{ SetWrongType(key string) error }

// Persister is a Subject that can take away a key's TTL.
type Persister interface{ Persist(key string) error }

// ScriptFlusher is a Subject whose server can forget the scripts it was given.
type ScriptFlusher interface{ FlushScripts() error }

// NeverLater is a Subject that answers whatever the deadline says, because it is
// the last one to ask. Cases with deadlines are not for it.
type NeverLater interface{ NeverLate() }

// Codeless is a Subject whose shared store is gone: its codes are those of the
// quarter of an hour. Behaviours of keys.Codes are not for it.
type Codeless interface{ Codeless() }

// Named is a Subject and its name in failure messages.
type Named struct {
	Name    string
	Subject Subject
}
