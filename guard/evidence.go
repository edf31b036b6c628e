package guard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
)

// evidence holds the facts in the parts of an error, without an order.
type evidence struct {
	status int
	codes  []string // lower case
	texts  []string
	sizes  figures // from members made for sizes
	path   string  // from a member made for a path

	// said counts findings. To bound the work, bodies, members and bytes count the
	// input.
	said, bodies, members, bytes int
}

const (
	// maxText is the number of bytes read at the start and at the end of a text. The
	// reason is in the first sentences, or after a long quotation.
	maxText = 4 << 10

	// maxTexts bounds all texts together, in bytes.
	maxTexts = 16 << 10

	// maxBody bounds the JSON found in a text, in bytes.
	maxBody = 1 << 20

	maxBodies  = 24
	maxMembers = 2 << 10
	maxCodes   = 64
	maxDepth   = 4
)

// addStatus notes an HTTP status. The first one stays: the status of a wrapped error
// comes before its wrapper's, and a field or a method before a text.
func (ev *evidence) addStatus(n int) {
	if ev.status == 0 && n >= 100 && n <= 599 {
		ev.status = n
		ev.said++
	}
}

// addCode notes a code or a type. If it is a status, or a status line such as "400 Bad
// Request", addCode also notes the status.
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
	if s = strings.ToLower(s); !slices.Contains(ev.codes, s) {
		ev.codes = append(ev.codes, s)
		ev.said++
	}
}

// addError notes the parts of err itself, without the errors it wraps.
func (ev *evidence) addError(err error) {
	ev.addMembers(reflect.ValueOf(err), 0)
	// Error types of SDKs have these methods for their parts.
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
	// Sprint survives an Error method that panics. Some SDKs panic if an error lacks a
	// request.
	ev.addText(fmt.Sprint(err), 0)
}

// addMember notes the member called name, of a struct or of a JSON body that is nested
// in level JSON strings. It skips members that are not known as parts of an error: they
// may quote the request or an answer.
func (ev *evidence) addMember(name string, v reflect.Value, level int) {
	v = value(v)
	if ev.members++; ev.members > maxMembers || !v.IsValid() || v.IsZero() {
		return
	}
	text, number := "", ""
	switch {
	case v.Type() == reflect.TypeFor[json.Number]():
		if n, err := strconv.ParseFloat(v.String(), 64); err == nil && n > 0 && n < maxSize {
			number = strconv.Itoa(int(n))
		}
	case v.Kind() == reflect.String:
		text = v.String()
	case v.CanInt(), v.CanUint():
		number = fmt.Sprint(v)
	case v.CanFloat() && v.Float() >= 0 && v.Float() < maxSize:
		number = strconv.Itoa(int(v.Float()))
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		text = string(v.Bytes())
	case v.Kind() == reflect.Slice && name == "loc":
		for i := range v.Len() {
			text += fmt.Sprint(".", v.Index(i))
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			ev.addMember(name, v.Index(i), level)
		}
		return
	}
	switch strings.ReplaceAll(strings.ToLower(name), "_", "") {
	case "code", "errorcode", "errcode", "status", "statuscode", "httpcode", "httpstatus", "httpstatuscode",
		"type", "errortype", "errtype", "reason", "stopreason", "finishreason":
		ev.addCode(text + number)
	case "param", "loc":
		ev.path = cmp.Or(ev.path, find("path").FindString(text))
	case "nprompttokens":
		ev.sizes.merge(figures{prompt: parseNumber(number)})
	case "nctx":
		if n := parseNumber(number); n >= minLimit {
			ev.sizes.merge(figures{limit: n})
		}
	case "error", "errors", "err", "message", "msg", "errormessage", "errormsg", "errmsg", "statusmsg", "title",
		"description", "errordescription", "detail", "details", "cause", "body", "rawbody", "responsebody", "raw", "rawjson":
		ev.addText(text, level)
		ev.addMembers(v, level)
	case "args", "attempts", "innererror", "externalmodelerror", "baseresp", "data", "metadata", "header", "incompletedetails", "response", "rawresponse", "httpresponse":
		ev.addMembers(v, level)
	}
}

// addMembers notes the exported members of a struct, or the members of a JSON
// object.
func (ev *evidence) addMembers(v reflect.Value, level int) {
	switch v = value(v); {
	case v.Kind() == reflect.Struct:
		for f, v := range v.Fields() {
			if f.Anonymous {
				ev.addMember("error", v, level)
			} else if f.IsExported() {
				ev.addMember(f.Name, v, level)
			}
		}
	case v.Kind() == reflect.Map && v.CanInterface():
		object, _ := reflect.TypeAssert[map[string]any](v)
		for _, key := range slices.Sorted(maps.Keys(object)) {
			ev.addMember(key, reflect.ValueOf(object[key]), level)
		}
	}
}

// place returns the place in the request that the error names, or "".
func (ev *evidence) place() string {
	return cmp.Or(find("path").FindString(strings.Join(ev.texts, "\n")), ev.path)
}

// value follows pointers and interfaces.
func value(v reflect.Value) reflect.Value {
	for range maxDepth {
		if v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
			v = v.Elem()
		}
	}
	return v
}

// addText notes a text of an error. It takes out any JSON and reads that separately. A
// body may quote the request, so only its members for messages are matched. A text at
// level n is nested in n JSON strings.
func (ev *evidence) addText(s string, level int) {
	if level > maxDepth || ev.bytes > maxBody || strings.TrimSpace(s) == "" {
		return
	}
	ev.bytes += len(s)
	rest := ev.takeBodies(s, level)
	if len(rest) > 2*maxText {
		rest = rest[:maxText] + "\n" + rest[len(rest)-maxText:]
	}
	rest = strings.ToValidUTF8(rest, "")
	rest = find("noise").ReplaceAllString(rest, "")
	rest = strings.Join(strings.Fields(rest), " ")
	if strings.Trim(rest, `{}[]"':, `) == "" {
		return
	}
	// The text of a wrapper usually repeats the wrapped text.
	if slices.ContainsFunc(ev.texts, func(had string) bool { return strings.Contains(had, rest) }) {
		return
	}
	ev.texts = slices.DeleteFunc(ev.texts, func(had string) bool { return strings.Contains(rest, had) })
	total := len(rest)
	for _, had := range ev.texts {
		total += len(had)
	}
	if total <= maxTexts {
		ev.texts = append(ev.texts, rest)
		ev.said++
	}
}

// bodyStart matches the possible beginning of an object, of an array of objects, or of
// an object in a JSON string.
var bodyStart = lazy.New(`\{\s*"|\[\s*\{|"\s*\{\\`)

func (ev *evidence) takeBodies(s string, level int) string {
	if len(s) > maxBody {
		return s
	}
	var rest strings.Builder
	for ; ev.bodies < maxBodies; ev.bodies++ {
		at := bodyStart.Get().FindStringIndex(s)
		if at == nil {
			break
		}
		var body any
		dec := json.NewDecoder(strings.NewReader(s[at[0]:]))
		dec.UseNumber() // a number may be too large
		if dec.Decode(&body) != nil {
			rest.WriteString(s[:at[0]+1])
			s = s[at[0]+1:]
			continue
		}
		rest.WriteString(s[:at[0]] + " ")
		s = s[at[0]+int(dec.InputOffset()):]
		ev.addMember("error", reflect.ValueOf(body), level+1)
	}
	return rest.String() + s
}
