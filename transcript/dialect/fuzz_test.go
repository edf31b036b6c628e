package dialect_test

import (
	"bytes"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

var foreign = []dialect.Dialect{
	dialect.MiniClaw, dialect.Claw0, dialect.ZyHive, dialect.OpenViking, dialect.Pi, dialect.ClaudeCode, dialect.Codex,
}

// fixtures yields the files in testdata, by their path.
func fixtures(t testing.TB) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		err := filepath.WalkDir("testdata", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(name) == ".golden" || strings.Contains(name, "fuzz") {
				return err
			}
			data, err := os.ReadFile(name)
			if err == nil && !yield(filepath.ToSlash(name), data) {
				return fs.SkipAll
			}
			return err
		})
		require.NoError(t, err)
	}
}

// checkScanned fails unless every byte that is not white space is in an entry
// or in damage, entries of one line are a whole batch, and every entry comes
// with an ID and its line.
func checkScanned(t testing.TB, data []byte, recs []transcript.Record) {
	t.Helper()
	rest := bytes.Clone(data)
	last := int64(-1)
	for i, r := range recs {
		size := int64(len(r.Entry.Line()))
		if r.Damage != nil {
			size = r.Damage.Size
		} else if got := string(data[r.Offset : r.Offset+size]); got != string(r.Entry.Line()) || r.Entry.ID == "" || r.Entry.Body == nil {
			t.Fatalf("at %d is %q, the entry is %+v with line %q", r.Offset, got, r.Entry, r.Entry.Line())
		}
		if n := r.Entry.Batch; n > 0 {
			for k := 1; k < n; k++ {
				if i+k >= len(recs) || recs[i+k].Entry.Part != k+1 || recs[i+k].Offset != r.Offset {
					t.Fatalf("record %d starts a batch of %d, record %d of it is not there", i, n, k+1)
				}
			}
		}
		_, moved := r.Entry.Body.(transcript.Compaction) // which ZyHive moves when it trims a file
		if i > 0 && !moved && (r.Offset < last || r.Offset == last && r.Entry.Part == 0) {
			t.Fatalf("record %d at %d is behind one at %d", i, r.Offset, last)
		}
		last = max(last, r.Offset)
		for j := r.Offset; j < r.Offset+size; j++ {
			rest[j] = '\n'
		}
	}
	left := bytes.Trim(bytes.ReplaceAll(rest, []byte("\xef\xbb\xbf"), nil), " \t\r\n")
	if len(left) > 0 {
		t.Fatalf("%q of %q is in no record", left, data)
	}
}

func FuzzScan(f *testing.F) {
	for name, data := range fixtures(f) {
		for i := range foreign {
			if strings.HasSuffix(name, ".jsonl") {
				f.Add(data, byte(i))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, which byte) {
		d := foreign[int(which)%len(foreign)]
		recs := scan(t, d, string(data))
		checkScanned(t, data, recs)
		if again := scan(t, d, string(data)); !reflect.DeepEqual(recs, again) {
			t.Fatalf("%s: read twice, not the same: %q", d, data)
		}
		_, _, err := dialect.Detect(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
	})
}

// FuzzFolder reads a folder in which one file holds anything, and writes the
// result in every dialect.
func FuzzFolder(f *testing.F) {
	var names []string
	files := map[string][]byte{}
	for name, data := range fixtures(f) {
		name = strings.TrimPrefix(name, "testdata/")
		files[name] = data
		if !testing.Short() || len(names)%4 == 0 {
			f.Add(byte(len(names)), data)
			f.Add(byte(len(names)), []byte(nil))
		}
		names = append(names, name)
	}
	whole := map[string]bool{} // one program's folder, written as another's
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		name := names[int(which)%len(names)]
		program, _, _ := strings.Cut(name, "/")
		d := writable[len(data)%len(writable)]
		if bytes.Equal(data, files[name]) {
			as := program + " " + string(d)
			if whole[as] {
				return // each of its files is a seed
			}
			whole[as] = true
		}
		fsys := fstest.MapFS{}
		for other, data := range files {
			if strings.HasPrefix(other, program+"/") {
				fsys[other] = &fstest.MapFile{Data: data}
			}
		}
		fsys[name] = &fstest.MapFile{Data: data}
		folder, err := dialect.ReadFolder(fsys)
		require.NoError(t, err)
		sessions := slices.Collect(folder.Sessions())
		sessions = slices.DeleteFunc(sessions, func(s dialect.Session) bool { return s.Err != nil })
		for _, s := range sessions {
			for _, err := range s.Records() {
				require.NoError(t, err)
			}
		}
		out, _ := write(t, d, slices.Values(sessions), func(s dialect.Session) iter.Seq2[transcript.Entry, error] {
			return func(yield func(transcript.Entry, error) bool) {
				for e, err := range entriesOf(s) {
					switch e.Body.(type) {
					case transcript.Rewind, transcript.Clip, transcript.Hide:
						continue
					}
					if !yield(e, err) {
						return
					}
				}
			}
		})
		back, err := dialect.ReadFolder(out)
		require.NoError(t, err)
		for s := range back.Sessions() {
			if s.Err != nil || len(s.Damage) > 0 || len(s.Unknown) > 0 {
				t.Fatalf("%s: what was written cannot be read: %+v", d, s)
			}
		}
	})
}
