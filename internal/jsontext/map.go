package jsontext

// BlobDepth limits the nesting of objects in a search for the blobs of an opaque block.
// The blobs are members with the name data.
const BlobDepth = 4

// MapMembers returns a valid object with each value replaced by the result of change. If
// change returns nil, the member is left out.
func MapMembers(obj []byte, change func(name string, v []byte) []byte) []byte {
	var out Object
	for name, v := range Members(obj) {
		if v = change(name, v); v != nil {
			out.Func(name, func(dst []byte) []byte { return append(dst, v...) })
		}
	}
	return out.End()
}

// MapElements is like [MapMembers] for a valid array.
func MapElements(array []byte, change func(v []byte) []byte) []byte {
	out := []byte{'['}
	for v := range Elements(array) {
		if v = change(v); v == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}
