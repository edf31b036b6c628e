// Package filename makes file names from names of an application.
package filename

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	maxName   = 120 // longest encoded name in bytes; longer names are hashed
	prefixLen = 60  // bytes before the hash in a hashed name
)

// Encode returns a file name without an extension. Lower-case letters, digits, '_' and
// '-' stay; every other byte, and the first byte of a Windows device name such as "con",
// becomes %xx. If the result is over 120 bytes, it becomes its first 60 bytes, '-' and
// the SHA-256 of the name. Such a name is longer than any unhashed name. So two names
// never share a file, even on a disk that ignores case, and no name leaves its folder.
func Encode(name string) string {
	device := isDevice(name)
	if len(name) <= maxName && !device && strings.IndexFunc(name, func(r rune) bool { return !stays(r) }) < 0 {
		return name
	}
	var sb strings.Builder
	for i := 0; i < len(name); i++ {
		if c := name[i]; (i > 0 || !device) && stays(rune(c)) {
			sb.WriteByte(c)
		} else {
			fmt.Fprintf(&sb, "%%%02x", c)
		}
	}
	enc := sb.String()
	if len(enc) <= maxName {
		return enc
	}
	sum := sha256.Sum256([]byte(name))
	return enc[:prefixLen] + "-" + hex.EncodeToString(sum[:])
}

func stays(c rune) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z'
}

// isDevice reports whether Windows treats a file of this name, with any extension, as a
// device.
func isDevice(name string) bool {
	switch name {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(name) == 4 && (name[:3] == "com" || name[:3] == "lpt") && '0' <= name[3] && name[3] <= '9'
}

// Decode is the inverse of Encode; ok is false for a hashed or an invalid name.
func Decode(enc string) (name string, ok bool) {
	if len(enc) > maxName || enc == "" {
		return "", false
	}
	var sb strings.Builder
	for i := 0; i < len(enc); i++ {
		if enc[i] != '%' {
			sb.WriteByte(enc[i])
			continue
		}
		if i+3 > len(enc) {
			return "", false
		}
		b, err := hex.DecodeString(enc[i+1 : i+3])
		if err != nil {
			return "", false
		}
		sb.WriteByte(b[0])
		i += 2
	}
	name = sb.String()
	return name, Encode(name) == enc
}

// IsHashed reports whether enc has the form of a hashed name.
func IsHashed(enc string) bool {
	if len(enc) != prefixLen+1+2*sha256.Size || enc[prefixLen] != '-' {
		return false
	}
	_, err := hex.DecodeString(enc[prefixLen+1:])
	return err == nil
}
