package filedriver

import "github.com/convolog/convolog/internal/filename"

const extension = ".jsonl"

// EncodeName returns the file name of an agent or a session ID: lower-case
// letters, digits, '_' and '-' stay, every other byte becomes %xx, and so does
// the first one of what is a device on Windows, "con" for example. Names over
// 120 bytes become a prefix, '-' and their SHA-256. So two names never share a
// file, and no name leaves its folder.
func EncodeName(name string) string { return filename.Encode(name) }

// DecodeName is the inverse of EncodeName; ok is false for a hashed name and
// for what is no name at all.
func DecodeName(enc string) (name string, ok bool) { return filename.Decode(enc) }

func isHashed(enc string) bool { return filename.IsHashed(enc) }
