package breached

import (
	"context"
	"errors"
)

// Chain asks several sources in turn, until one knows: corpora on this machine
// first, then whoever else may be asked. It is immutable, and as safe for
// concurrent use as what is in it.
type Chain []Source

// Check implements Source. The first source that has the hash, or that is
// complete and has it not, decides. Where none is complete, "not in this
// corpus" of the first that answered is the answer; where none answered, the
// error is of all of them.
func (c Chain) Check(ctx context.Context, h Hash) (Verdict, error) {
	var part *Verdict
	var errs []error
	for _, s := range c {
		v, err := s.Check(ctx, h)
		switch {
		case err != nil:
			errs = append(errs, err)
		case v.Breached || v.Complete:
			return v, nil
		case part == nil:
			part = &v
		}
	}
	if part != nil {
		return *part, nil
	}
	return Verdict{}, joined(errs, ErrKind)
}

// Range implements Source. The first that can serve it does.
func (c Chain) Range(ctx context.Context, kind Kind, prefix string) (*Range, error) {
	if _, err := ParsePrefix(prefix); err != nil {
		return nil, err
	}
	var errs []error
	for _, s := range c {
		r, err := s.Range(ctx, kind, prefix)
		if err == nil {
			return r, nil
		}
		errs = append(errs, err)
	}
	return nil, joined(errs, ErrKind, ErrNoRange)
}

// joined is the last of those certain errors that there are when nothing else
// is, else what is unknown: it must not be taken for "this will never work".
func joined(errs []error, certain ...error) error {
	said := ErrKind // an empty chain is of no kind
	var unknown []error
	for _, err := range errs {
		known := false
		for i, c := range certain {
			if errors.Is(err, c) {
				known = true
				if i > 0 {
					said = c
				}
			}
		}
		if !known {
			unknown = append(unknown, err)
		}
	}
	if len(unknown) > 0 {
		return errors.Join(unknown...)
	}
	return said
}
