package erase

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// FuzzUnsigned: a line of any shape without what is signed becomes one that parses,
// of the same type, and nothing more is taken out of it.
func FuzzUnsigned(f *testing.F) {
	f.Add([]byte(`{"type":"assistant","id":"a","ext":{"x":1},"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"yes","citations":[]},{"type":"server_tool_use","id":"s"}]}`))
	f.Add([]byte(`{"type":"tool_use","id":"b","tool_use_id":"t","name":"n","input":{},"ext":{"item":1}}`))
	f.Add([]byte(`{"type":"tool_result","id":"c","tool_use_id":"t","content":"r","tool_name":"n"}`))
	f.Add([]byte(`{"type":"user","id":"d","content":[{"type":"text","text":"q"},{"type":"new"}]}`))
	f.Add([]byte(`{"type":"new","id":"x","critical":true,"text":"words"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := transcript.ParseEntry(bytes.Clone(line))
		if err != nil {
			return
		}
		bare := unsigned(e)
		got, err := transcript.ParseEntry(bare.Line())
		require.NoError(t, err, "%s", bare.Line())
		require.Equal(t, e.Type(), got.Type())
		require.Equal(t, e.ID, got.ID)
		require.Equal(t, string(bare.Line()), string(unsigned(bare).Line()))
	})
}
