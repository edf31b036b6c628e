package filedriver

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/session/driver"
)

// decodeRow reads a row as encoding/json does, in less than half of the time: listing
// many sessions does little else.
func decodeRow(text []byte, row *driver.Row) error {
	if quickRow(text, row) {
		return nil
	}
	*row = driver.Row{}
	return json.Unmarshal(text, row)
}

// quickRow reads a row as this package writes it, and reports false for any other
// text.
func quickRow(text []byte, row *driver.Row) bool {
	w, fields := jsontext.NewWalk(text), reflect.ValueOf(row).Elem()
	for w.Next() {
		i, known := members()[w.Name]
		if !known || !decodeMember(fields.Field(i).Addr().Interface(), w.Value) {
			return false
		}
	}
	return w.Valid()
}

// members are the indexes of a row's fields by their JSON names.
var members = sync.OnceValue(func() map[string]int {
	all := map[string]int{}
	for i, f := range reflect.VisibleFields(reflect.TypeFor[driver.Row]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all[name] = i
	}
	delete(all, "-")
	return all
})

// decodeMember reads the value of a member. It reports false for a value of an
// unusual form.
func decodeMember(field any, value []byte) (ok bool) {
	switch field := field.(type) {
	case *string:
		*field, ok = jsontext.String(value)
	case *int64:
		*field, ok = jsontext.Int(value)
	case *int:
		var n int64
		n, ok = jsontext.Int(value)
		*field = int(n)
	case *time.Time:
		ok = field.UnmarshalJSON(value) == nil
	default:
		ok = json.Unmarshal(value, field) == nil
	}
	return ok
}

// storable returns a row that JSON can express.
func storable(row driver.Row) driver.Row {
	for _, t := range []*time.Time{&row.UpdatedAt, &row.CreatedAt, &row.LastUserAt} {
		if *t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
			*t = time.Time{}
		}
	}
	return row
}
