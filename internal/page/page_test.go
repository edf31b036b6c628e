package page_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/page"
	"github.com/convolog/convolog/internal/unseen"
)

// The page finds unseen characters with the pattern of the other screens.
func TestPatternOfUnseen(t *testing.T) {
	script := strings.ReplaceAll(unseen.Pattern, `\x{`, `\u{`)
	script = regexp.MustCompile(`\\p\{(\w{3,})\}`).ReplaceAllString(script, `\p{Script=$1}`)
	require.Contains(t, string(page.Live()), "/"+script+"/gu")
}
