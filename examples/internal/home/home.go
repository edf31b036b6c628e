// Package home has the name of the folder that a program keeps its store in, if the
// person gives no other.
package home

import (
	"fmt"
	"os"
)

// Default is relative: the store belongs to the working folder, perhaps a project.
const Default = ".convolog"

// Check returns an error if dir is [Default] and a symbolic link. A stranger may have
// planted it: a clone of a repository brings its links along. A link that a person names
// is followed.
func Check(dir string) error {
	if to, err := os.Readlink(dir); dir == Default && err == nil {
		return fmt.Errorf("%s is a symbolic link to %s: name that folder yourself if it is yours, or remove the link", dir, to)
	}
	return nil
}
