package recalltool_test

import (
	"testing"

	"github.com/convolog/convolog/internal/recalltool"
)

func TestNotice(t *testing.T) {
	l := recalltool.Left{Messages: 212, Files: 3, Texts: 1}
	for _, tt := range []struct {
		in, text string
		left     recalltool.Left
	}{
		{"Summary.\n" + l.Notice(), "Summary.", l},
		{l.Notice() + "\n", "", l},
		{"Summary.\n" + l.Notice() + " And more.", "Summary.\n" + l.Notice() + " And more.", recalltool.Left{}},
		{" Summary.", " Summary.", recalltool.Left{}},
		{"", "", recalltool.Left{}},
	} {
		if text, left := recalltool.Cut(tt.in); text != tt.text || left != tt.left {
			t.Errorf("%q: got %q, %+v, want %q, %+v", tt.in, text, left, tt.text, tt.left)
		}
	}
}
