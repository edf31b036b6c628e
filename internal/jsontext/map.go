package jsontext

// BlobDepth limits the nesting of objects that are searched for the blobs of an
// opaque block. They are members with the name data.
const BlobDepth = 4

// MapMembers returns a valid object with the values that change returns for its
// members; nil leaves a member out.
func MapMembers(obj []byte, change func(name string, v []byte) []byte) []byte {
	var out Object
	for name, v := range Members(obj) {
		if v = change(name, v); v != nil {
			out.Func(name, func(dst []byte) []byte { return append(dst, v...) })
		}
	}
	return out.End()
}

// MapElements is [MapMembers] for a valid array.
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
