package rebuild

import (
	"slices"
	"strconv"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// Commit is the last commit of a session, with sums over those before it. The zero
// value says that there was none.
type Commit struct {
	Entry string
	// Commit is without texts and Runs. Its Stats have the memories that were
	// extracted since, too, and its Open has the Entry itself while that is open.
	transcript.Commit
}

// Used is an entry that has used something for the first time since the last
// commit.
type Used struct {
	Entry string
	// Used has the URIs that were used for the first time, and of a skill nothing
	// else.
	transcript.Used
}

// account takes an entry about commits and uses.
func (s *Standing) account(id string, e *transcript.Entry) {
	switch b := e.Body.(type) {
	case transcript.Commit:
		s.Used, s.used = nil, nil
		if b.Archive == "" {
			s.Commit = Commit{}
			return
		}
		if b.N == 0 { // another program does not say
			b.N = max(s.Commit.N+1, ordinalOf(b.Archive))
			b.Stats, b.Open = s.Commit.Stats, s.Commit.Open
			b.Stats.Commits++
		}
		b.Abstract, b.Overview, b.Runs = "", "", nil
		b.Open = append(slices.Clone(b.Open), id)
		s.Commit = Commit{id, b}
	case transcript.Extracted:
		s.Commit.Open = without(s.Commit.Open, func(id string) bool { return id == b.Commit })
		if b.Err != "" {
			s.Commit.Open = append(s.Commit.Open, b.Commit)
		}
		for _, n := range b.Counts {
			s.Commit.Stats.Memories += n.Added + n.Merged
		}
	case transcript.Used:
		s.use(id, b)
	}
}

// mostOrdinal keeps a name like archive_99999999999 from deciding about the next ones.
const mostOrdinal = 1_000_000

// ordinalOf is the number that the name of an archive ends with, 0 if there is
// none or it is a very large one.
func ordinalOf(archive string) int {
	n, err := strconv.Atoi(archive[strings.LastIndexFunc(archive, func(r rune) bool { return r < '0' || r > '9' })+1:])
	if err != nil || n > mostOrdinal {
		return 0
	}
	return n
}

// use notes what an entry has used for the first time.
func (s *Standing) use(id string, u transcript.Used) {
	if s.used == nil {
		s.used = map[string]bool{}
	}
	first := func(kind, uri string) bool {
		known := s.used[kind+uri]
		s.used[kind+uri] = true
		return !known
	}
	var found transcript.Used
	for _, uri := range u.Contexts {
		if first("c", uri) {
			found.Contexts = append(found.Contexts, uri)
		}
	}
	if u.Skill != nil && first("s", u.Skill.URI) {
		found.Skill = &transcript.SkillUse{URI: u.Skill.URI, Success: u.Skill.Success}
	}
	if len(found.Contexts) > 0 || found.Skill != nil {
		s.Used = append(s.Used, Used{id, found})
	}
}

// Stats returns the sums over all commits, with what has happened since the last
// one.
func (s Standing) Stats() transcript.CommitStats {
	sum := s.Commit.Stats
	for _, u := range s.Used {
		sum.Contexts += len(u.Contexts)
		if u.Skill != nil {
			sum.Skills++
		}
	}
	return sum
}
