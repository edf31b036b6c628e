package filedriver

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// A row is what encoding/json reads, whatever the text is.
func FuzzDecodeRow(f *testing.F) {
	f.Add([]byte(`{"id":"a","updatedAt":"2027-01-15T08:02:59Z","size":103340,"gen":1,"lastId":"b","key":"k","title":"x \u00e9","messageCount":52}`))
	f.Add([]byte(`{"id":"a","size":1,"usage":{"m":{"answers":1}},"labels":["x"],"base":{"session":"s"},"more":1}`))
	f.Add([]byte(`{"id":"a","ID":"b","size":null,"title":3}`))
	f.Add([]byte(`{"id":"a","rev":2,"archived":true,"ttl":60,"pinned":null,"titleByHand":true,"titledAt":4}`))
	f.Add([]byte(`{"id":"a","archived":1,"rev":null}`))
	f.Add([]byte(`{"id":"a","labels":5}`))
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
