// Package checksum writes and checks the checksums of lines.
//
// A checksum is the last member of a line: `,"crc":"`, eight lower-case
// hexadecimal digits and `"}`. The digits are the CRC-32C (Castagnoli) of all
// bytes of the line before that comma. Package transcript adds checksums to new batches
// and in Entry.WithChecksum. Package session leaves them out if Options.NoChecksum is set.
package checksum

import "hash/crc32"

const (
	name = `,"crc":"`
	end  = `"}`
	size = len(name) + 8 + len(end)
)

// Append appends a checksum to a line. It overwrites the last byte of the slice, so the
// caller must own the slice.
func Append(line []byte) []byte {
	line = line[:len(line)-1]
	digits := digitsOf(line)
	return append(append(append(line, name...), digits[:]...), end...)
}

// Renew returns a changed line. If the line ends with a checksum, Renew replaces the
// checksum. It overwrites the end of the slice, so the caller must own the slice.
func Renew(line []byte) []byte {
	if !Ends(line) {
		return line
	}
	return Append(append(line[:len(line)-size], '}'))
}

// digitsOf returns the digits of the checksum of data.
func digitsOf(data []byte) (digits [8]byte) {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	for i := range digits {
		digits[i] = "0123456789abcdef"[sum>>(28-4*i)&15]
	}
	return digits
}

// Ends reports whether a line ends with a checksum, right or wrong.
func Ends(line []byte) bool {
	n := len(line) - size
	return n > 0 && string(line[n:n+len(name)]) == name && string(line[len(line)-len(end):]) == end
}

// Intact reports whether the checksum of a line matches the line. A line without a
// checksum is intact. The line must have no white space around it.
//
// Intact also recognises a checksum whose member name was damaged. Otherwise one wrong
// byte could make a line with a checksum look like a line without a checksum.
func Intact(line []byte) bool {
	n := len(line) - size
	if n <= 0 || line[n] != ',' || string(line[n+5:n+8]) != `":"` || string(line[len(line)-2:]) != end {
		return true // nothing at the end of the line looks like a checksum
	}
	digits := digitsOf(line[:n])
	agrees := string(line[n+len(name):len(line)-len(end)]) == string(digits[:])
	return agrees == Ends(line)
}
