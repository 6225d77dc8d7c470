package main

import "errors"

// cleanups undo what was started, last first. A part pushes its undo the moment it exists, so
// that a failure half way leaves nothing running.
type cleanups []func() error

func (c *cleanups) push(undo func() error) { *c = append(*c, undo) }

// run empties the stack and returns what went wrong.
func (c *cleanups) run() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	*c = nil
	return errors.Join(errs...)
}
