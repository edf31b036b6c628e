package filedriver

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// decodeRow reads any text as encoding/json does.
func FuzzDecodeRow(f *testing.F) {
	f.Add([]byte(`{"id":"a","updatedAt":"2027-01-15T08:02:59Z","size":103340,"gen":1,"lastId":"b","key":"k","title":"x \u00e9","messageCount":52}`))
	f.Add([]byte(`{"id":"a","size":1,"usage":{"m":{"answers":1}},"labels":["x"],"base":{"session":"s"},"more":1}`))
	f.Add([]byte(`{"id":"a","ID":"b","size":null,"title":3}`))
	f.Add([]byte(`{"id":"a","rev":2,"archived":true,"ttl":60,"keep":null,"titleByHand":true,"titledAt":4}`))
	f.Add([]byte(`{"id":"a","archived":1,"rev":null}`))
	f.Add([]byte(`{"id":"a","labels":5}`))
	f.Add([]byte(`{"id":"a","compactions":3,"base":{"agent":"b","session":"s"},"parent":null,"-":true,"current":true}`))
	f.Add([]byte(`{"id":"a"`))
	f.Add([]byte(`{"gen":1.0,"gen":18446744073709551616,"labels":null,"usage":{"m":{"answers":1}},"usage":{"n":{}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var got, want driver.Row
		err := decodeRow(text, &got)
		if wantErr := json.Unmarshal(text, &want); wantErr != nil {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

// Rows as they are written need no second look.
func TestQuickRow(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	for _, want := range []driver.Row{
		{ID: "a", Key: "k", Title: "t", UpdatedAt: at, CreatedAt: at, LastUserAt: at, Size: 12, Gen: 3, Messages: 4, Turns: 5},
		{ID: "a", Compactions: 1, TitledAt: 2, Owner: "o", Rev: 3, Archived: true, TTL: 4, Keep: true, Labels: []string{"l"}},
		{ID: "a", Base: transcript.Link{Session: "s"}, Usage: map[string]driver.Usage{"m": {Answers: 1}}},
	} {
		text, err := json.Marshal(want)
		require.NoError(t, err)
		var got driver.Row
		require.True(t, quickRow(text, &got), "%s", text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{``, `{`, `{"id":1}`, `{"size":""}`, `{"turnCount":1.5}`, `{"createdAt":"x"}`, `{"labels":1}`, `{"more":1}`, `{"-":true}`} {
		require.False(t, quickRow([]byte(text), new(driver.Row)), text)
	}
}
