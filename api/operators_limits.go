package api

import (
	"context"

	"github.com/guardd/guardd/escalation/operate"
	"github.com/guardd/guardd/keys/plans"
)

// RouteLimitsExplain shows why plan limits refused.
const RouteLimitsExplain = "/admin/v1/limits/explain"

// LimitsExplainer says what plan limits decided about a key; plans.Taker is one.
// It is safe for concurrent use. Its errors are plans.Faults.
type LimitsExplainer interface {
	Explain(ctx context.Context, q *plans.ExplainRequest) (*plans.Explanation, error)
}

func (s *operators) explainLimits(l LimitsExplainer) func(context.Context, *operate.Who, *plans.ExplainRequest) (*plans.Explanation, error) {
	if l == nil {
		l = plans.NewTaker(plans.Config{}) // which keeps no evidence
	}
	return func(ctx context.Context, who *operate.Who, q *plans.ExplainRequest) (*plans.Explanation, error) {
		if err := s.desk.Everywhere(who); err != nil {
			return nil, err
		}
		return l.Explain(ctx, q)
	}
}
