package transcript

import (
	"hash/crc32"
	"slices"
)

// A checksum is the last member of a line: `,"crc":"`, eight lower-case
// hexadecimal digits and `"}`. The digits are the CRC-32C (Castagnoli) of all
// bytes of the line in front of that comma.
const (
	sealName = `,"crc":"`
	sealEnd  = `"}`
	sealSize = len(sealName) + 8 + len(sealEnd)
)

// Sealed returns e with a line that ends with a checksum, which scans verify;
// see [DamageCRC]. An existing checksum is left alone, even a wrong one:
// sealing again would hide the damage. Code that changes a line encodes it
// again and seals it last. The line of e itself is not modified.
func (e Entry) Sealed() Entry {
	if line := e.Line(); !isSealed(line) {
		e.line = seal(slices.Clip(slices.Clone(line)))
	}
	return e
}

// ParseChanged is [ParseEntry] for a line that a program has changed: if the line ends
// with a checksum, the entry's line ends with a new one.
func ParseChanged(line []byte) (Entry, error) {
	if !isSealed(line) {
		return ParseEntry(line)
	}
	e, err := ParseEntry(append(slices.Clip(line[:len(line)-sealSize]), '}'))
	if err != nil {
		return e, err
	}
	return e.Sealed(), nil
}

// seal appends a checksum to a line. It overwrites the last byte of the slice,
// so the caller must own it.
func seal(line []byte) []byte {
	line = line[:len(line)-1]
	digits := checksum(line)
	return append(append(append(line, sealName...), digits[:]...), sealEnd...)
}

// checksum returns the digits of the checksum of data.
func checksum(data []byte) (digits [8]byte) {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	for i := range digits {
		digits[i] = "0123456789abcdef"[sum>>(28-4*i)&15]
	}
	return digits
}

// isSealed reports whether a line ends with a checksum, right or wrong.
func isSealed(line []byte) bool {
	n := len(line) - sealSize
	return n > 0 && string(line[n:n+len(sealName)]) == sealName && string(line[len(line)-len(sealEnd):]) == sealEnd
}

// Intact reports whether the checksum of a line matches it. A line without a
// checksum is intact. The line must have no white space around it.
//
// Intact also recognises a checksum whose member name was damaged. Otherwise
// one wrong byte could turn a sealed line into one that looks as if it had
// never been sealed.
func Intact(line []byte) bool {
	n := len(line) - sealSize
	if n <= 0 || line[n] != ',' || string(line[n+5:n+8]) != `":"` || string(line[len(line)-2:]) != sealEnd {
		return true // nothing at the end of the line looks like a checksum
	}
	digits := checksum(line[:n])
	agrees := string(line[n+len(sealName):len(line)-len(sealEnd)]) == string(digits[:])
	return agrees == isSealed(line)
}
