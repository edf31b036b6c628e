package exchange_test

import (
	"context"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript/dialect"
)

// exported are the functions and methods of exchange and dialect.
var exported = map[string]any{
	"exchange.Copy": exchange.Copy, "exchange.Find": exchange.Find, "exchange.Export": exchange.Export, "exchange.FullHistory": exchange.FullHistory,
	"exchange.Merge": exchange.Merge,
	"exchange.HTML":  exchange.HTML, "exchange.Import": exchange.Import[dialect.Session], "exchange.Lines": exchange.Lines,
	"exchange.Markdown": exchange.Markdown, "exchange.Request": exchange.Request, "exchange.Imported.MarshalJSON": exchange.Imported.MarshalJSON,
	"dialect.CompressedError.Error": (*dialect.CompressedError).Error, "dialect.Detect": dialect.Detect, "dialect.Dialect.Scan": dialect.Dialect.Scan, "dialect.Dialect.ScanOptions": dialect.Dialect.ScanOptions,
	"dialect.Folder.Sessions": (*dialect.Folder).Sessions, "dialect.InZone": dialect.InZone, "dialect.Memory.Text": dialect.Memory.Text, "dialect.NewWriter": dialect.NewWriter,
	"dialect.ReadFolder": dialect.ReadFolder, "dialect.Session.Info": dialect.Session.Info, "dialect.Session.MarshalJSON": dialect.Session.MarshalJSON,
	"dialect.Session.Records": dialect.Session.Records, "dialect.Writer.Close": (*dialect.Writer).Close, "dialect.Writer.Write": (*dialect.Writer).Write,
}

// Every function of exchange and dialect takes zero values, nil pointers and pointers to
// zero values, and returns sequences that can be ranged over. A method with a pointer
// receiver needs a value.
func TestZeroValues(t *testing.T) {
	api, err := os.ReadFile("../../testdata/api.txt")
	require.NoError(t, err)
	for _, line := range regexp.MustCompile(`(?m)^(?:session|transcript)/((?:exchange|dialect)\.\S+) (?:func|method)$`).FindAllSubmatch(api, -1) {
		require.Contains(t, exported, string(line[1]))
	}
	for name, f := range exported {
		for _, pointers := range []bool{false, true} {
			pointers = pointers || strings.Count(name, ".") > 1
			require.NotPanics(t, func() { callWithZeros(reflect.ValueOf(f), pointers) }, "%s with pointers: %v", name, pointers)
		}
	}
}

// callWithZeros calls f with zero values: pointers are nil, or to a zero value. It ranges
// over a returned sequence.
func callWithZeros(f reflect.Value, pointers bool) {
	var args []reflect.Value
	for in := range f.Type().Ins() {
		arg := reflect.Zero(in)
		switch {
		case in == reflect.TypeFor[context.Context]():
			arg = reflect.ValueOf(context.Background())
		case pointers && in.Kind() == reflect.Pointer:
			arg = reflect.New(in.Elem())
		}
		args = append(args, arg)
	}
	for _, out := range f.Call(args) {
		if out.Kind() == reflect.Func && !out.IsNil() {
			yield := reflect.MakeFunc(out.Type().In(0), func([]reflect.Value) []reflect.Value { return []reflect.Value{reflect.ValueOf(true)} })
			out.Call([]reflect.Value{yield})
		}
	}
}
