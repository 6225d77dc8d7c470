package client

// BreachedVerdict is what POST /v1/breached/check knows of one hash.
type BreachedVerdict struct {
	// Breached: it was seen at least as often as guardd's breached.minimum_count.
	Breached bool `json:"breached"`
	// Count is how often it was seen, whatever that minimum is.
	Count uint64 `json:"count"`
	// Complete is false when the corpus is known to lack some: then "not
	// breached" is only "not in this corpus".
	Complete bool `json:"complete"`
}
