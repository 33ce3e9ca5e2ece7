package fault

import (
	"errors"
	"strings"
)

// cut is an error of a vtgate without the statement and its values, which have keys. It does not unwrap to the driver's
// error, whose text a log may print, but is what that is.
type cut struct{ err error }

// Cut returns an error without the statement that a vtgate has added to its text.
func Cut(err error) error {
	if err == nil || errors.As(err, new(*cut)) || beforeStatement(err.Error()) == err.Error() {
		return err
	}
	return &cut{err}
}

func (c *cut) Error() string        { return beforeStatement(c.err.Error()) }
func (c *cut) Is(target error) bool { return errors.Is(c.err, target) }
func (c *cut) As(target any) bool   { return errors.As(c.err, target) }

// unwrap is [errors.Unwrap], also for an error that was cut.
func unwrap(err error) error {
	if c, ok := err.(*cut); ok {
		return c.err
	}
	return errors.Unwrap(err)
}

// beforeStatement cuts off the statement and its values.
func beforeStatement(text string) string {
	for _, mark := range []string{" (CallerID: ", ": Sql: ", ", BindVars: "} {
		text, _, _ = strings.Cut(text, mark)
	}
	return text
}
