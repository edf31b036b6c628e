package storetest

import "time"

// A Clock advances by a second at each reading.
type Clock struct{ Now time.Time }

// Tick reads the clock.
func (c *Clock) Tick() time.Time {
	c.Now = c.Now.Add(time.Second)
	return c.Now
}
