package guard

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// evidence is what the parts of an error say, without an order.
type evidence struct {
	status int
	codes  []string // lower case
	texts  []string
	sizes  figures // of fields made for them

	// bodies counts the JSON bodies read, to bound the work.
	bodies int
}

const (
	// A text is read up to so many bytes at its start and as many at its end:
	// what matters is in the first sentences, or after a long quotation.
	maxText = 4 << 10

	// maxTexts bounds all texts together, in bytes.
	maxTexts = 16 << 10

	maxCodes  = 64
	maxFields = 64
	maxDepth  = 4
)

// addStatus notes an HTTP status. The first one stays: a wrapper's or that of
// the answer comes before one that is read from a text.
func (ev *evidence) addStatus(n int) {
	if ev.status == 0 && n >= 100 && n <= 599 {
		ev.status = n
	}
}

// addCode notes a code or a type. One that is a status, or a status line as
// "400 Bad Request", is noted as that too.
func (ev *evidence) addCode(s string) {
	s = strings.TrimSpace(s)
	if s == "" || len(s) > 128 || len(ev.codes) >= maxCodes {
		return
	}
	if len(s) == 3 || len(s) > 3 && s[3] == ' ' {
		if n, err := strconv.Atoi(s[:3]); err == nil {
			ev.addStatus(n)
		}
	}
	ev.codes = append(ev.codes, strings.ToLower(s))
}

// addError notes what err itself says, without the errors it wraps.
func (ev *evidence) addError(err error) {
	v := reflect.ValueOf(err)
	if isNil(v) {
		return // a method would meet its nil receiver
	}
	ev.addFields(v, 0)
	// The methods that error types of SDKs have for their parts.
	if e, ok := err.(interface{ StatusCode() int }); ok {
		ev.addStatus(e.StatusCode())
	}
	if e, ok := err.(interface{ HTTPStatusCode() int }); ok {
		ev.addStatus(e.HTTPStatusCode())
	}
	if e, ok := err.(interface{ ErrorCode() string }); ok {
		ev.addCode(e.ErrorCode())
	}
	if e, ok := err.(interface{ ErrorMessage() string }); ok {
		ev.addText(e.ErrorMessage(), 0)
	}
	if e, ok := err.(interface{ RawJSON() string }); ok {
		ev.addText(e.RawJSON(), 0)
	}
	// Sprint survives an Error method that panics, as those of some SDKs do
	// for a value without its request.
	ev.addText(fmt.Sprint(err), 0)
}

func isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Interface, reflect.Chan:
		return v.IsNil()
	default:
		return false
	}
}

// addFields notes the exported fields of a struct whose names say what they
// hold.
func (ev *evidence) addFields(v reflect.Value, depth int) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() || depth > maxDepth {
			return
		}
		v, depth = v.Elem(), depth+1
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range min(v.NumField(), maxFields) {
		f := v.Type().Field(i)
		switch {
		case f.Anonymous:
			ev.addFields(v.Field(i), depth+1)
		case f.IsExported():
			ev.addField(f.Name, v.Field(i), depth)
		}
	}
}

func (ev *evidence) addField(name string, v reflect.Value, depth int) {
	text, num := scalar(v)
	switch strings.ToLower(name) {
	case "statuscode", "httpstatuscode", "httpstatus", "httpcode":
		ev.addStatus(num)
		ev.addCode(text)
	case "status", "code", "errorcode", "errcode", "type", "errortype", "errtype", "reason":
		ev.addStatus(num)
		ev.addCode(text)
		if num != 0 {
			ev.addCode(strconv.Itoa(num))
		}
	case "message", "msg", "errormessage", "description", "detail", "details",
		"body", "rawbody", "responsebody", "raw", "rawjson":
		ev.addText(text, 0)
		if v.Kind() == reflect.Pointer || v.Kind() == reflect.Struct {
			ev.addFields(v, depth+1)
		}
	case "err", "error", "innererror":
		ev.addText(text, 0)
		ev.addFields(v, depth+1)
	case "response", "rawresponse", "httpresponse":
		// An *http.Response: its body is not ours to read.
		if v.Kind() == reflect.Pointer && !v.IsNil() {
			v = v.Elem()
		}
		if v.Kind() == reflect.Struct {
			if s := v.FieldByName("StatusCode"); s.IsValid() && s.CanInt() {
				ev.addStatus(int(s.Int()))
			}
		}
	}
}

// scalar returns a string, bytes, or a number, also behind pointers and in
// interfaces.
func scalar(v reflect.Value) (text string, num int) {
	for range maxDepth {
		if v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface || v.IsNil() {
			break
		}
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.String:
		return v.String(), 0
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		return string(v.Bytes()), 0
	case v.CanInt():
		return "", int(v.Int())
	case v.CanUint() && v.Uint() < maxSize:
		return "", int(v.Uint())
	case v.CanFloat() && v.Float() >= 0 && v.Float() < maxSize:
		return "", int(v.Float())
	default:
		return "", 0
	}
}
