package exchange_test

import (
	"errors"
	"io/fs"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A source is a Source of fixed parts.
type source struct {
	info    dialect.Session
	records iter.Seq2[transcript.Record, error]
}

func (s source) Info() dialect.Session                        { return s.info }
func (s source) Records() iter.Seq2[transcript.Record, error] { return s.records }

// recordsOf yields records, and an error after them if it is not nil.
func recordsOf(err error, records ...transcript.Record) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		for _, rec := range records {
			if !yield(rec, nil) {
				return
			}
		}
		if err != nil {
			yield(transcript.Record{}, err)
		}
	}
}

// saidAt returns the record of a text.
func saidAt(id string, at time.Time, text string) transcript.Record {
	return transcript.Record{Entry: transcript.Entry{ID: id, Time: at, Body: transcript.MessageLine{
		Kind: transcript.TypeUser, Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: text}},
	}}}
}

// A Source of any kind imports into lines with its times and checksums, and reports its
// damage and the entries that no reader knows.
func TestImportSource(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	first := saidAt("a", noon, "one")
	first.Entry.App = []byte(`{"author":"anna"}`)
	own := source{dialect.Session{Dialect: "mine", ID: "1"}, recordsOf(nil,
		first,
		transcript.Record{Damage: &transcript.Damage{Kind: transcript.DamageMalformed}},
		transcript.Record{Entry: transcript.Entry{ID: "u", Body: transcript.Unknown{Kind: "odd"}}},
		saidAt("b", time.Time{}, "two"),
		saidAt("c", noon.Add(time.Hour), "three"))}
	st := inMemory()
	report, err := exchange.Import(t.Context(), st, slices.Values([]exchange.Source{own, own.info}), nil)
	require.ErrorIs(t, err, fs.ErrInvalid, "the second is from no folder")
	require.Equal(t, dialect.Losses{"damage": 1, "unknown": 1, "time": 2}, report[0].Lost)
	require.Equal(t, 4, report[0].Appended)
	s, err := st.Get(t.Context(), report[0].Session)
	require.NoError(t, err)
	var times []string
	for e, err := range s.Entries(t.Context(), report[0].Session.ID) {
		require.NoError(t, err)
		require.Regexp(t, `,"crc":"[^"]*"}$`, string(e.Line()))
		times = append(times, e.Time.Format(time.TimeOnly)+string(e.App))
	}
	require.Equal(t, []string{`12:00:00{"author":"anna"}`, "12:00:00", "12:00:00", "13:00:00"}, times)
	history, _ := importedHistory(t, st, report[0].Session)
	require.Equal(t, sourceHistory(t, own, nil), history)
}

// A faulty Source gives an error, and those after it are imported.
func TestImportFaultySource(t *testing.T) {
	errDisk := errors.New("the disk is gone")
	info := func(id string) dialect.Session { return dialect.Session{Dialect: "mine", ID: id} }
	good := saidAt("a", time.Now(), "hello")
	for name, c := range map[string]struct {
		faulty  exchange.Source
		want    error
		current int // sessions of the store
	}{
		"no records":   {source{info: info("1")}, fs.ErrInvalid, 1},
		"no source":    {nil, fs.ErrInvalid, 1},
		"an error":     {source{info("1"), recordsOf(errDisk, good)}, errDisk, 1},
		"no name":      {source{dialect.Session{}, recordsOf(nil, good)}, session.ErrKey, 1},
		"empty record": {source{info("1"), recordsOf(nil, transcript.Record{}, good)}, nil, 2},
	} {
		st := inMemory()
		report, err := exchange.Import(t.Context(), st, slices.Values([]exchange.Source{c.faulty, source{info("2"), recordsOf(nil, good)}}), nil)
		require.ErrorIs(t, err, c.want, name)
		require.Len(t, report, 2, name)
		require.NoError(t, report[1].Err, name)
		all, err := st.List(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, all, c.current, name)
	}
}
