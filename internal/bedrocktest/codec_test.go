package bedrocktest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/schemas"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/traits"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/aws/smithy-go/transport/http/protocol/restjson1"
)

// fromJSON decodes a text into a type of the SDK, by the SDK's own protocol.
func fromJSON(t testing.TB, text []byte, schema *smithy.Schema, into smithy.Deserializable) {
	t.Helper()
	op := smithy.NewOperationSchema(schemas.Converse, nil, schema)
	resp := &smithyhttp.Response{Response: &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}}
	if err := restjson1.New(nil).DeserializeResponse(t.Context(), op, nil, resp, into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// toJSON encodes a value of the SDK.
func toJSON(t testing.TB, v smithy.Serializable) []byte {
	t.Helper()
	id := smithy.ShapeID{Namespace: "bedrocktest", Name: "Any"}
	schema := smithy.NewSchema(id, smithy.ShapeTypeStructure, 0, &traits.HTTP{Method: http.MethodPost, URI: "/", Code: http.StatusOK})
	req := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	if err := restjson1.New(nil).SerializeRequest(t.Context(), smithy.NewOperationSchema(schema, schema, nil), v, req); err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(req.GetStream())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// input decodes a rendered body into the SDK's input of Converse.
func input(t testing.TB, model string, body []byte) *bedrockruntime.ConverseInput {
	t.Helper()
	var rest struct {
		InferenceConfig json.RawMessage `json:"inferenceConfig"`
	}
	if err := json.Unmarshal(body, &rest); err != nil {
		t.Fatal(err)
	}
	// The type that counts tokens has all but one of the members, and decodes.
	var most types.ConverseTokensRequest
	fromJSON(t, body, schemas.ConverseTokensRequest, &most)
	in := &bedrockruntime.ConverseInput{
		ModelId: &model, Messages: most.Messages, System: most.System, ToolConfig: most.ToolConfig,
	}
	if most.AdditionalModelRequestFields != nil {
		var fields map[string]any
		if err := most.AdditionalModelRequestFields.UnmarshalSmithyDocument(&fields); err != nil {
			t.Fatal(err)
		}
		in.AdditionalModelRequestFields = document.NewLazyDocument(fields)
	}
	if rest.InferenceConfig != nil {
		in.InferenceConfig = &types.InferenceConfiguration{}
		fromJSON(t, rest.InferenceConfig, schemas.InferenceConfiguration, in.InferenceConfig)
	}
	return in
}
