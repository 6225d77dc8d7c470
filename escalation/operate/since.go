package operate

import "context"

// Last is the number of the journal's last entry, 0 when there is none.
func (d *Desk) Last(ctx context.Context) (int64, error) { return d.journal.Last(ctx) }

// Since returns what operators did after the entry of that number, oldest first, of
// all realms, and the number up to which it has looked, at most most further on: for
// whoever follows the journal. What cannot be read is left out; Look logs it.
// Errors: the store's.
func (d *Desk) Since(ctx context.Context, seq int64, most int) (all []Record, upto int64, err error) {
	last, err := d.journal.Last(ctx)
	if err != nil {
		return nil, seq, err
	}
	from := max(seq+1, last-JournalKeeps+1)
	upto = min(last, from+int64(most)-1)
	entries, err := d.journal.Read(ctx, from, upto)
	if err != nil {
		return nil, seq, err
	}
	for _, e := range entries {
		if r, err := readRecord(e); err == nil {
			all = append(all, *r)
		}
	}
	return all, upto, nil
}
