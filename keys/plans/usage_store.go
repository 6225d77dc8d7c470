package plans

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/guardd/guardd/keys"
)

// StoreLedger is a Ledger in documents of the store, where there is no database:
// what the store forgets is forgotten.
func StoreLedger(d keys.Documents) Ledger { return storeLedger{d} }

type storeLedger struct{ docs keys.Documents }

// Change is Ledger's.
func (l storeLedger) Change(ctx context.Context, id UsageID, until int64, change func(Usage) (Usage, bool)) error {
	key := keys.PlanSpace(id.Key).Usage(id.Rule, id.Start)
	ttl := max(until-time.Now().UnixMicro(), keys.Day)
	_, err := keys.Change(ctx, l.docs, key, func(was []byte) ([]byte, int64, bool, error) {
		u, ok := change(decodeUsage(was))
		return u.encode(), ttl, ok, nil
	})
	return err
}

func (u Usage) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(u.Drawn))
	b = binary.AppendUvarint(b, uint64(u.Limit))
	return binary.AppendUvarint(b, uint64(u.Told))
}

// decodeUsage is the inverse of encode; of anything else, and of nothing, it is none.
func decodeUsage(b []byte) Usage {
	r := reader{b: b}
	u := Usage{Drawn: r.number(), Limit: r.number(), Told: int(r.number())}
	if r.bad || len(r.b) > 0 {
		return Usage{}
	}
	return u
}
