package soak_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/serve/zyhive/convlog"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// No method of a store or of a session, with any arguments, returns a byte of a
// channel log or changes one.
func TestChannelLogsStayApart(t *testing.T) {
	t.Parallel()
	check := func(name string, f reflect.Value) {
		w := newWalk(t)
		for variant := range 6 {
			w.call(f, variant)
		}
		require.NotContains(t, w.said.String(), told, name)
		data, err := os.ReadFile(w.log)
		require.NoError(t, err, name)
		require.Equal(t, w.before, string(data), name)
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[*session.Store](), reflect.TypeFor[*session.Session](), reflect.TypeFor[*turn.Turn]()} {
		for m := range typ.Methods() {
			check(fmt.Sprint(typ, ".", m.Name), m.Func)
		}
	}
	for i, f := range []any{
		turn.Begin, turn.TryBegin, turn.RunTools, turn.Dispatch, turn.Decide, turn.Queue, turn.Drain, turn.Undo,
		turn.Pin, turn.Unpin, turn.Pins, turn.SetValue, turn.Values, turn.Titles,
		erase.Preview, erase.Run, erase.Resume,
	} {
		check(fmt.Sprint("function ", i), reflect.ValueOf(f))
	}
}

// told is the word in a channel log, and data that only the log contains.
const told = "marker-7f3a9c"

// A walk calls methods on a store with a channel log, and collects their results.
type walk struct {
	t           *testing.T
	st          *session.Store
	s           *session.Session
	log, before string
	said        strings.Builder
}

func newWalk(t *testing.T) *walk {
	t.Helper()
	dir := storetest.Scratch(t)
	w := &walk{t: t, st: storetest.Open(t, dir, &session.Options{Sync: session.SyncNever})}
	t.Cleanup(func() { _ = w.st.Close() }) // a walk may have closed it
	w.s = storetest.Load(t, w.st, storetest.CLI)
	storetest.Add(t, w.s, transcript.UserText("What did they say on telegram?"), transcript.AssistantText("I cannot know."))
	writer, err := convlog.OpenWriter(dir, &convlog.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	require.NoError(t, writer.Append(t.Context(), convlog.Channel{Agent: "main", Type: "telegram", Chat: "42"}, convlog.Entry{Role: "user", Content: storetest.Word + " " + told}))
	require.NoError(t, writer.Close())
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(path, "telegram") {
			w.log = path
		}
		return err
	}))
	data, err := os.ReadFile(w.log)
	require.NoError(t, err)
	w.before = string(data)
	return w
}

// strangers are names that could lead to the log.
var strangers = []string{"", "telegram-42", "../convlogs/telegram-42", "convlogs", "agent:main:telegram:direct:42", storetest.Word}

// call calls a function with arguments of its types, which depend on the variant. Of a
// method the first one is the receiver.
func (w *walk) call(f reflect.Value, variant int) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Millisecond)
	defer cancel()
	var args []reflect.Value
	for i := range f.Type().NumIn() {
		if f.Type().IsVariadic() && i == f.Type().NumIn()-1 {
			break
		}
		args = append(args, w.arg(ctx, f.Type().In(i), variant))
	}
	defer func() { _ = recover() }() // a nil function as an argument
	defer w.end(args)
	out := f.Call(args)
	w.end(out)
	for _, v := range out {
		w.hear(v)
	}
}

// end ends turns.
func (w *walk) end(values []reflect.Value) {
	for _, v := range values {
		if tn, ok := reflect.TypeAssert[*turn.Turn](v); ok && tn != nil {
			_ = tn.End() // it may be over
		}
	}
}

// arg makes an argument.
func (w *walk) arg(ctx context.Context, typ reflect.Type, variant int) reflect.Value {
	name := strangers[variant%len(strangers)]
	var v any
	switch reflect.New(typ).Elem().Interface().(type) {
	case *session.Store:
		v = w.st
	case *session.Session:
		v = w.s
	case *turn.Turn:
		tn, _ := turn.Begin(ctx, w.s) // without a store there is nothing to call
		v = tn
	case session.Ref:
		v = session.Ref{Agent: "main", ID: name}
	case session.Key:
		v = session.Key{Agent: "main", Channel: "telegram", Peer: "42"}
	case search.Query:
		v = search.Query{Text: storetest.Word}
	case erase.Erasure:
		v = erase.Erasure{Match: func(transcript.Entry) bool { return true }}
	case time.Duration:
		v = time.Millisecond
	case string:
		v = name
	default:
		if typ == reflect.TypeFor[context.Context]() {
			return reflect.ValueOf(ctx)
		}
		return reflect.Zero(typ)
	}
	return reflect.ValueOf(v)
}

// hear collects the results of a method, and the first element of a sequence.
func (w *walk) hear(v reflect.Value) {
	if v.Kind() == reflect.Func && !v.IsNil() && v.Type().CanSeq2() {
		n := 0
		for a, b := range v.Seq2() {
			w.hear(a)
			w.hear(b)
			if n++; n > 100 {
				break
			}
		}
		return
	}
	if v.CanInterface() {
		fmt.Fprintf(&w.said, "%+v\n", v.Interface())
		if e, ok := reflect.TypeAssert[transcript.Entry](v); ok {
			w.said.Write(e.Line())
		}
	}
}

// A guard also sends no part of a channel log.
func TestGuardSendsNoChannelLog(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	_, err := w.s.Compact(t.Context(), nil)
	require.NoError(t, err)
	var sent string
	_, err = guard.Do(t.Context(), &guard.Guard{Window: 100_000}, w.s, func(_ context.Context, c guard.Call) (*transcript.Response, error) {
		sent = storetest.JSON(t, c.Request)
		return &transcript.Response{Message: transcript.AssistantText("ok")}, nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, sent)
	require.NotContains(t, sent, told)
}
