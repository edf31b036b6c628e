package wiretest

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shot is the head of a PNG of a size, in base64.
func shot(w, h uint32) string {
	data := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	data = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(data, w), h)
	return base64.StdEncoding.EncodeToString(append(data, 8, 2, 0, 0, 0, 0))
}

func TestSideOf(t *testing.T) {
	picture := image.NewPaletted(image.Rect(0, 0, 30, 70), color.Palette{color.Black, color.White})
	encoders := map[string]func(*bytes.Buffer) error{
		"png":  func(b *bytes.Buffer) error { return png.Encode(b, picture) },
		"gif":  func(b *bytes.Buffer) error { return gif.Encode(b, picture, nil) },
		"jpeg": func(b *bytes.Buffer) error { return jpeg.Encode(b, picture, nil) },
	}
	for name, encode := range encoders {
		var b bytes.Buffer
		require.NoError(t, encode(&b))
		require.Equal(t, 70, sideOf(base64.StdEncoding.EncodeToString(b.Bytes())), name)
	}
	for _, data := range []string{"", "AAAA", "?", "/9j/AAAA" + strings.Repeat("A", 40), strings.Repeat("A", 80)} {
		require.Zero(t, sideOf(data))
	}
}

// The limits of images, pixels and bytes are the ones on the providers' pages.
func TestNumbersOfImages(t *testing.T) {
	const many, wide = "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
		"messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels"
	anthropic := func(model, images string) (API, string) {
		return Anthropic{}, `{"model":"` + model + `","max_tokens":1,"messages":[{"role":"user","content":[` + images + `]}]}`
	}
	bedrock := func(_, images string) (API, string) {
		return Bedrock{}, `{"messages":[{"role":"user","content":[` + images + `]}]}`
	}
	chat := func(_, images string) (API, string) {
		return OpenAIChat{}, `{"model":"m","messages":[{"role":"user","content":[` + images + `]}]}`
	}
	responses := func(_, images string) (API, string) {
		return OpenAIResponses{}, `{"model":"m","input":[{"role":"user","content":[` + images + `]}]}`
	}
	gemini := func(_, images string) (API, string) {
		return Gemini{}, `{"contents":[{"role":"user","parts":[` + images + `]}]}`
	}
	const (
		block  = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%s"}}`
		data   = `{"image":{"format":"png","source":{"bytes":"%s"}}}`
		url    = `{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}`
		input  = `{"type":"input_image","image_url":"data:image/png;base64,%s"}`
		inline = `{"inlineData":{"mimeType":"image/png","data":"%s"}}`
	)
	for _, tt := range []struct {
		of          func(model, images string) (API, string)
		model, form string
		n           int
		w, h        uint32
		want        string
	}{
		{anthropic, "claude-opus-5-5", block, 20, 2600, 1600, ""},
		{anthropic, "claude-opus-5-5", block, 21, 2600, 1600, many},
		{anthropic, "claude-opus-5-5", block, 21, 1600, 2000, ""},
		{anthropic, "claude-opus-5-5", block, 1, 10, 8000, ""},
		{anthropic, "claude-opus-5-5", block, 1, 10, 8001, wide},
		{anthropic, "claude-opus-5-5", block, 600, 10, 10, ""},
		{anthropic, "claude-opus-5-5", block, 601, 10, 10, "Too much media: 0 document pages + 601 images > 600"},
		{anthropic, "claude-haiku-4-5", block, 100, 10, 10, ""},
		{anthropic, "claude-haiku-4-5", block, 101, 10, 10, "Too much media: 0 document pages + 101 images > 100"},
		{anthropic, "claude-sonnet-4-20250514", block, 101, 10, 10, "Too much media: 0 document pages + 101 images > 100"},
		{bedrock, "", data, 20, 8000, 10, ""},
		{bedrock, "", data, 1, 8001, 10, "The model returned the following errors: messages.0.content.0.image.source.bytes: At least one of the image dimensions exceed max allowed size: 8000 pixels"},
		{bedrock, "", data, 21, 10, 10, "You can't include more than 20 images in a request."},
		{chat, "", url, 1500, 9000, 10, ""},
		{chat, "", url, 1501, 10, 10, "Too many images: 1501, but at most 1500 images are allowed."},
		{responses, "", input, 1501, 10, 10, "Too many images: 1501, but at most 1500 images are allowed."},
		{gemini, "", inline, 3600, 9000, 10, ""},
		{gemini, "", inline, 3601, 10, 10, "Too many images: 3601. Please use fewer than 3600 images in your request."},
	} {
		images := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(tt.form, shot(tt.w, tt.h))+",", tt.n), ",")
		api, body := tt.of(tt.model, images)
		found := Check(api, []byte(body))
		if tt.want == "" {
			require.Empty(t, found)
			continue
		}
		require.NotEmpty(t, found, tt.want)
		require.Equal(t, tt.want, found[0].Text)
	}
}
