package filedriver

// SetStep makes the driver announce each step of an archive, a restore and a
// delete, and each new index.
func (d *Driver) SetStep(step func(name string)) { d.step = step }
