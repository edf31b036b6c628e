package pgdriver

import (
	"fmt"

	"github.com/convolog/convolog/transcript/filelog"
)

// unknown is the error of an append that was given up. Unsure says that it may have
// been written.
func (d *Driver) unknown(c *call, unsure bool, err error) error {
	if !unsure {
		return fmt.Errorf("nothing was written: %w", err)
	}
	return &filelog.NotDurableError{Path: fmt.Sprintf("schema %s, session %s/%s", d.opts.Schema, c.ref.Agent, c.ref.ID), Err: err}
}
