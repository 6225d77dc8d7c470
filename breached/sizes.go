package breached

// Sizes are what an index takes on the disk, in bytes.
type Sizes struct {
	Index, Suffixes uint64
	// Table is what the tables take of the index, however many rows there are.
	Table uint64
	// LargeCounts is how many counts are above 255.
	LargeCounts uint64
}

// BytesPerRow is what a row takes of the index beyond the tables.
func (s Sizes) BytesPerRow(rows uint64) float64 {
	return float64(s.Index-s.Table) / float64(rows)
}

// Sizes are those of this index.
func (x *Index) Sizes() Sizes {
	m := x.main
	s := Sizes{Index: m.layout.size, Table: headerSize + m.table.size + m.directory.size, LargeCounts: m.header.large}
	if x.suffixes != nil {
		s.Suffixes = x.suffixes.layout.size
	}
	return s
}

// RowsPerPrefix is the least and the most that a prefix has of those that have
// any. The public corpus is spread evenly: it had 795 to 1,258 in 2024.
func (x *Index) RowsPerPrefix() (least, most uint64, err error) {
	err = x.use(func() error {
		least = x.main.rows
		for p := range uint64(Prefixes) {
			from, to := x.main.rangeRows(p)
			if n := to - from; from < to {
				least, most = min(least, n), max(most, n)
			}
		}
		return nil
	})
	return least, most, err
}
