package plans

import "slices"

// Registered returns the key whose digest is d; ok is false where the book has
// none.
func (b *Book) Registered(d Digest) (k Key, ok bool) {
	if o := b.keys[d]; o != nil {
		return o.Key, true
	}
	return Key{}, false
}

// Named returns the digests of the keys of that name, in order: a name need not
// be one key's.
func (b *Book) Named(name string) (all []Digest) {
	for d, o := range b.keys {
		if o.Name == name && name != "" {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(x, y Digest) int { return slices.Compare(x[:], y[:]) })
	return all
}
