package session

import "time"

// CommitTrigger says when AfterTurn commits.
type CommitTrigger struct {
	Messages, Tokens int
	Idle             time.Duration
}
