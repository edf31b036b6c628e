package wire

import "strings"

// excerpt returns the beginning of data for an error message, in valid UTF-8.
func excerpt(data []byte) string {
	const most = 300
	if len(data) <= most {
		return strings.ToValidUTF8(string(data), "\uFFFD")
	}
	return strings.ToValidUTF8(string(data[:most]), "\uFFFD") + "..."
}
