package wire

// DefaultMaxOutput is the output limit in tokens of a request that names none,
// for the APIs that need one.
const DefaultMaxOutput = 8192

// CacheTTL says for how long a provider is to keep what it has read of a request.
type CacheTTL string

// The times that Anthropic and Bedrock have. A mark costs a quarter more than the
// tokens in front of it for five minutes, and twice as much for an hour; what is
// read from the cache costs a tenth.
const (
	Cache5m CacheTTL = "5m"
	Cache1h CacheTTL = "1h"
)
