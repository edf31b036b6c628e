package exchange_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/convolog/convolog/session/retain"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// leaving are the types that leave packages session and exchange: what exported
// functions return, by name, and below what observers and callers of errors get.
var leaving = map[string]any{
	"compact.Cut":            compact.Cut{},
	"dialect.Losses":         dialect.Losses{},
	"exchange.CopyReport":    exchange.CopyReport{},
	"exchange.Imported":      exchange.Imported{},
	"rebuild.Fold":           (*rebuild.Fold)(nil),
	"rebuild.History":        rebuild.History{},
	"rebuild.Pending":        rebuild.Pending{},
	"rebuild.Report":         rebuild.Report{},
	"rebuild.Value":          rebuild.Value{},
	"rebuild.Where":          rebuild.Where{},
	"session.Appended":       session.Appended{},
	"session.Compacted":      session.Compacted{},
	"exchange.CopyResult":    exchange.CopyResult{},
	"turn.Approval":          turn.Approval{},
	"turn.Draft":             turn.Draft{},
	"session.Health":         session.Health{},
	"search.Hit":             search.Hit{},
	"session.Info":           session.Info{},
	"session.Key":            session.Key{},
	"search.Part":            search.Part{},
	"search.RecallTool":      search.RecallTool{},
	"session.Ref":            session.Ref{},
	"retain.Plan":            retain.Plan{},
	"retain.Report":          retain.Report{},
	"session.Session":        (*session.Session)(nil),
	"session.Store":          (*session.Store)(nil),
	"turn.Turn":              (*turn.Turn)(nil),
	"session.Usage":          session.Usage{},
	"transcript.Calibration": transcript.Calibration{},
	"transcript.Carried":     transcript.Carried{},
	"transcript.Entry":       transcript.Entry{},
	"transcript.Record":      transcript.Record{},
	"transcript.Response":    transcript.Response{},
	"memory.Chapter":         memory.Chapter{},
	"memory.Committed":       memory.Committed{},
	"memory.Stats":           memory.Stats{},
	"memory.Use":             memory.Use{},
	"erase.Plan":             erase.Plan{},
	"erase.Receipt":          erase.Receipt{},

	"an argument of Observe": session.Event{},
	"an error":               search.AmbiguousError{},
}

// Every type that an exported function or method returns is one of leaving.
func TestLeavingIsWhole(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"..", ".", "../turn"} {
		for _, name := range returned(t, dir) {
			_, ok := leaving[name]
			require.True(t, ok, "%s is returned", name)
		}
	}
}

// returned returns the names of the types in the results of exported functions,
// and of exported methods of exported types, with the package in front.
func returned(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	names := map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), path, data, 0)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || f.Type.Results == nil || !ofExported(f.Recv) {
				continue
			}
			for _, result := range f.Type.Results.List {
				typeNames(result.Type, file.Name.Name, names)
			}
		}
	}
	// They hold the type in their brackets, are not structs, or are functions and belong to
	// ones.
	for _, name := range []string{"compact.Options", "context.Context", "iter.Seq", "iter.Seq2", "session.Filter", "session.SyncPolicy"} {
		delete(names, name)
	}
	return slices.Sorted(maps.Keys(names))
}

// ofExported reports whether a receiver is missing or of an exported type.
func ofExported(receiver *ast.FieldList) bool {
	if receiver == nil {
		return true
	}
	names := map[string]bool{}
	typeNames(receiver.List[0].Type, "", names)
	return len(names) > 0
}

// typeNames collects the exported names in a type.
func typeNames(typ ast.Expr, pkg string, names map[string]bool) {
	ast.Inspect(typ, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok {
				names[of.Name+"."+n.Sel.Name] = true
			}
			return false
		case *ast.Ident:
			if n.IsExported() {
				names[pkg+"."+n.Name] = true
			}
		}
		return true
	})
}

// unnamed are the types whose fields need no names in JSON.
var unnamed = map[reflect.Type]string{
	reflect.TypeFor[search.RecallTool](): "it is code: a tool and the function that runs it",
	reflect.TypeFor[rebuild.History]():   "it is the argument of a renderer; what leaves is the request",
	reflect.TypeFor[transcript.Record](): "it is what a scan yields; what leaves is the line",
}

// Fields of types that leave the library are named in JSON, unless the type
// marshals itself.
func TestJSONNames(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map}, typ.Kind()) {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] || unnamed[typ] != "" {
			return
		}
		seen[typ] = true
		fromFields := slices.Contains([]reflect.Type{
			reflect.TypeFor[exchange.Imported](), reflect.TypeFor[dialect.Session](), reflect.TypeFor[session.Tail](), reflect.TypeFor[compact.Step](),
		}, typ) // of these MarshalJSON only adds the error
		_, form := reflect.PointerTo(typ).MethodByName("MarshalJSON")
		_, text := reflect.PointerTo(typ).MethodByName("MarshalText")
		if !fromFields && (form || text) {
			return
		}
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case !f.IsExported() || name == "-":
				continue
			case name == "" && !f.Anonymous:
				t.Errorf("%s (%v) has no JSON name for %s", path, typ, f.Name)
			}
			walk(path+"."+f.Name, f.Type)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(leaving)) {
		walk(name, reflect.TypeOf(leaving[name]))
	}
}

// Types with a form of their own have it in JSON too, and an error is its text.
func TestJSONForms(t *testing.T) {
	t.Parallel()
	errLost := errors.New("lost")
	key := session.Key{Agent: "main", Channel: "cli", Kind: "direct", Peer: "a:b"}
	call := transcript.ToolCallBlock{ID: "t1", Name: "ls", Input: json.RawMessage(`{"dir":"."}`), Extra: transcript.Extra{"ext": json.RawMessage(`1`)}}
	for _, tt := range []struct {
		value any
		want  string
	}{
		{key, `{"agent":"main","channel":"cli","kind":"direct","peer":"a:b"}`},
		{exchange.Imported{}, `{"source":{"dialect":"","path":"","messages":0},"records":0,"appended":0}`},
		{exchange.CopyResult{Ref: session.Ref{Agent: "main", ID: "s"}, Lines: 3, Appended: 1}, `{"agent":"main","id":"s","lines":3,"appended":1}`},
		{session.Event{Kind: session.EventRepair, Tail: session.Tail{Offset: 3, Error: "lost"}}, `{"kind":"repair","session":{"agent":"","id":""},"tail":{"offset":3,"size":0,"error":"lost"}}`},
		{session.Event{Kind: session.EventCompactionStep, Step: compact.Step{Skipped: errLost.Error()}}, `{"kind":"compaction-step","session":{"agent":"","id":""},"step":{"skipped":"lost"}}`},
		{
			transcript.Compaction{Summary: "s", FirstKept: "e1", Said: []transcript.Carried{{Entry: "e0", Text: "hi"}}},
			`{"summary":"s","firstKeptEntryId":"e1","said":[{"entry":"e0","text":"hi"}]}`,
		},
		{
			transcript.Response{Message: transcript.UserText("hi"), Model: "m", StopReason: transcript.StopEndTurn, Made: transcript.Made{After: "e"}},
			`{"message":{"role":"user","content":"hi"},"model":"m","stop_reason":"end_turn","made":{"after":"e"}}`,
		},
		{rebuild.PendingCall{Entry: "e", Call: call, State: rebuild.Dispatched}, `{"entry":"e","call":{"type":"tool_use","id":"t1","name":"ls","input":{"dir":"."},"ext":1},"state":"dispatched"}`},
		{
			exchange.Imported{Source: dialect.Session{Dialect: dialect.ZyHive, Path: "a.jsonl", Err: errLost}, Key: key, Err: errLost},
			`{"source":{"dialect":"zyhive","path":"a.jsonl","messages":0,"error":"lost"},"key":"agent:main:cli:direct:a%3ab","records":0,"appended":0,"error":"lost"}`,
		},
	} {
		data, err := json.Marshal(tt.value)
		require.NoError(t, err)
		require.JSONEq(t, tt.want, string(data))
	}

	var back rebuild.PendingCall
	data, err := json.Marshal(rebuild.PendingCall{Call: call})
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, call, back.Call)
	require.Error(t, json.Unmarshal([]byte(`{"call":{"type":"text","text":"x"}}`), &back))

	for _, bad := range []session.Key{{Agent: "main"}, {Agent: "a\xff", Channel: "cli", Peer: "p"}, {Agent: "main", Channel: "cli", Peer: "p", Thread: "t"}} {
		_, err := json.Marshal(exchange.Imported{Key: bad, Err: session.ErrKey})
		require.NoError(t, err, "a report on %#v", bad)
	}
}
