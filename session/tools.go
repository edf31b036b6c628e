package session

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/convolog/convolog/transcript"
)

// RunTools calls run for each call of an answer, at most limit at the same time
// (all of them if limit is 0), and appends each result as soon as it is there.
// With a nil error each call has a result.
//
// Run returns a result of the call it was given: see [transcript.ToolResult] and
// [transcript.ToolError]. It is called in goroutines of RunTools, which have ended
// when RunTools returns. If ctx is done, a call that has not begun gets an error
// result instead, and results are appended all the same: the history then says
// what was done and what was not.
//
// If a result cannot be appended, the context of the other calls is cancelled and
// no further one begins. [Session.Pending] has the calls without a result, which
// can be given to RunTools again.
func (s *Session) RunTools(
	ctx context.Context, calls []transcript.ToolCallBlock, limit int,
	run func(ctx context.Context, call transcript.ToolCallBlock) transcript.Message,
) error {
	saved := context.WithoutCancel(ctx)
	group, running := errgroup.WithContext(ctx)
	if limit > 0 {
		group.SetLimit(limit)
	}
	for _, call := range calls {
		group.Go(func() error {
			if running.Err() != nil && ctx.Err() == nil {
				return nil // another result could not be appended
			}
			var result transcript.Message
			if err := ctx.Err(); err != nil {
				result = transcript.ToolError(call.ID, fmt.Sprintf("%s was not run: %v", call.Name, err))
			} else {
				result = run(running, call)
			}
			_, err := s.Append(saved, result)
			return err
		})
	}
	return group.Wait()
}
