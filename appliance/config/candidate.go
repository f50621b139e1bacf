package config

import (
	"context"
	"errors"
	"fmt"
)

// Set writes a leaf, leaf-list, list entry or empty block of the owner's
// candidate, as words: those of the path, then the value or values. Problems,
// and nothing has changed.
func (m *Manager) Set(ctx context.Context, owner string, words []string) (Candidate, error) {
	return m.edit(ctx, owner, func(t *Tree) ([]byte, error) { return t.Set(m.o.Model, words) })
}

// Delete removes a leaf, list entry or block from the owner's candidate.
func (m *Manager) Delete(ctx context.Context, owner string, words []string) (Candidate, error) {
	return m.edit(ctx, owner, func(t *Tree) ([]byte, error) { return t.Delete(m.o.Model, words) })
}

func (m *Manager) edit(ctx context.Context, owner string, change func(*Tree) ([]byte, error)) (Candidate, error) {
	done, err := m.lock(ctx)
	if err != nil {
		return Candidate{}, err
	}
	defer done()
	c, err := m.candidate(ctx, owner)
	if err != nil {
		return Candidate{}, err
	}
	tree, err := Parse("candidate", c.Text)
	if err != nil {
		return Candidate{}, err
	}
	if c.Text, err = change(tree); err != nil {
		return Candidate{}, err
	}
	return m.keep(ctx, c)
}

// Load makes text the owner's whole candidate. It must keep to the model, though
// what is required may be missing. A masked secret stands for the present one.
//
// base, if it is not 0, is the revision that text began as: the candidate begins
// there too, so that a commit finds what others have changed since.
func (m *Manager) Load(ctx context.Context, owner string, text []byte, base uint64) (Candidate, error) {
	done, err := m.lock(ctx)
	if err != nil {
		return Candidate{}, err
	}
	defer done()
	c, err := m.candidate(ctx, owner)
	if err != nil {
		return Candidate{}, err
	}
	if base != 0 && base != c.Base {
		if !c.Modified.IsZero() {
			return Candidate{}, &BaseError{Candidate: c.Base, Text: base}
		}
		c.Base = base
	}
	if c.Text, err = m.adopt("candidate", text, c.Text); err != nil {
		return Candidate{}, err
	}
	return m.keep(ctx, c)
}

// BaseError says that a text began as another revision than the candidate it
// would replace.
type BaseError struct{ Candidate, Text uint64 }

// Error implements error.
func (e *BaseError) Error() string {
	return fmt.Sprintf("the text began as revision %d, but your candidate, changed meanwhile, as revision %d", e.Text, e.Candidate)
}

// keep writes a changed candidate. Tokens never reach the store in clear.
func (m *Manager) keep(ctx context.Context, c Candidate) (Candidate, error) {
	tree, err := m.draft("candidate", c.Text)
	if err != nil {
		return Candidate{}, err
	}
	c.Text, c.Modified = tree.hash(m.o.Model), m.o.Clock().UTC()
	return c, m.o.Store.PutCandidate(ctx, c)
}

// candidate returns the owner's candidate, or a new one: what runs.
func (m *Manager) candidate(ctx context.Context, owner string) (Candidate, error) {
	c, err := m.o.Store.Candidate(ctx, owner)
	if !errors.Is(err, ErrNoCandidate) {
		return c, err
	}
	running, err := m.newest(ctx)
	return Candidate{Owner: owner, Base: running.Number, Text: running.Text}, err
}

// Candidate returns the owner's candidate with secrets masked; what runs, with
// a zero time, if there is none.
func (m *Manager) Candidate(ctx context.Context, owner string) (Candidate, error) {
	c, err := m.candidate(ctx, owner)
	if err != nil {
		return c, err
	}
	c.Text, err = m.Show(c.Text, nil)
	return c, err
}

// Discard drops the owner's candidate. ErrNoCandidate.
func (m *Manager) Discard(ctx context.Context, owner string) error {
	done, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer done()
	return m.o.Store.DeleteCandidate(ctx, owner)
}

// Diff returns what committing the owner's candidate would change, as a unified
// diff with secrets masked; "" if nothing.
func (m *Manager) Diff(ctx context.Context, owner string) (string, error) {
	c, err := m.candidate(ctx, owner)
	if err != nil {
		return "", err
	}
	running, err := m.newest(ctx)
	if err != nil {
		return "", err
	}
	return m.diff(running.Text, c.Text)
}

// Validate holds the owner's candidate, or what runs, against the start gate.
func (m *Manager) Validate(ctx context.Context, owner string) error {
	c, err := m.candidate(ctx, owner)
	if err != nil {
		return err
	}
	return m.o.Check(ctx, c.Text)
}

// Show returns what text says, with secrets masked: all of it, byte for byte, or
// the part at a path, given as words, in canonical form.
func (m *Manager) Show(text []byte, words []string) ([]byte, error) {
	tree, err := Parse("configuration", text)
	if err != nil {
		return nil, err
	}
	masked := tree.mask(m.o.Model)
	if len(words) == 0 {
		return masked, nil
	}
	if tree, err = Parse("configuration", masked); err != nil {
		return nil, err
	}
	return tree.part(m.o.Model, words)
}

// draft parses a text that must keep to the model, complete or not.
func (m *Manager) draft(file string, text []byte) (*Tree, error) {
	tree, err := Parse(file, text)
	if err == nil {
		err = tree.validate(m.o.Model, false)
	}
	return tree, err
}

// adopt takes a text from outside: it must keep to the model, masked secrets
// become those of present, and leaves kept as digests become digests.
func (m *Manager) adopt(file string, text, present []byte) ([]byte, error) {
	tree, err := Parse(file, text)
	if err != nil {
		return nil, err
	}
	old, err := Parse("present", present)
	if err != nil {
		return nil, err
	}
	if text, err = tree.unmask(m.o.Model, old); err != nil {
		return nil, err
	}
	if tree, err = m.draft(file, text); err != nil {
		return nil, err
	}
	return tree.hash(m.o.Model), nil
}
