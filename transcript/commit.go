package transcript

// Used records what really helped to answer.
type Used struct {
	Contexts []string // URIs
	Skill    *SkillUse
}

// SkillUse is one use of a skill.
type SkillUse struct {
	URI     string `json:"uri"`
	Input   string `json:"input,omitempty"`
	Output  string `json:"output,omitempty"`
	Success bool   `json:"success"`
	Extra   Extra  `json:"-"` // members that have no field
}

// Commit closes a chapter of its session. The chapter is the entries
// themselves: nothing is copied or moved.
type Commit struct {
	N          int    // the number of the chapter, from 1
	FirstEntry string // the first entry of Runs, and the last one
	LastEntry  string
	Runs       []Run  // the ranges of the chapter, in the order of the lines
	Messages   int    // the number of messages: texts of the user and answers
	Abstract   string // one line about it
	Overview   string
	Stats      CommitStats // of the session up to this commit, included
	// Open are the entry IDs of earlier commits from which no memories have been
	// extracted, never the commit's own.
	Open  []string
	Owner string // of the session at that time
}

// Run is a range of lines: from the batch of one entry through the batch of
// another.
type Run struct {
	First string `json:"first"`
	Last  string `json:"last"`
}

// CommitStats are sums over all commits of a session up to one.
type CommitStats struct {
	Commits  int `json:"commits"`
	Contexts int `json:"contexts,omitempty"` // URIs of contexts that were used; one counts once for each commit
	Skills   int `json:"skills,omitempty"`   // URIs of skills, counted in the same way
	Memories int `json:"memories,omitempty"` // added or merged, see Extracted
}

// Extracted records the result of extracting memories from the chapter of a commit.
// The last one for a commit counts.
type Extracted struct {
	Commit string                    // entry ID of the commit
	Counts map[string]ExtractedCount // by category
	Diff   string                    // names the record of the changes
	// Err is the reason why the extraction failed or must be repeated: with an
	// Err the commit is still open.
	Err string
}

// ExtractedCount counts the candidates of one category by outcome.
type ExtractedCount struct {
	Added   int `json:"added,omitempty"`
	Merged  int `json:"merged,omitempty"`
	Skipped int `json:"skipped,omitempty"`
	Failed  int `json:"failed,omitempty"`
}
