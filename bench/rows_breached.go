package main

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/guardd/guardd/breached"
)

// corpusRows is how many rows look-ups are made in: 100 million are what a real
// index is measured by where memory and patience are short.
var corpusRows uint64 = 100_000_000

const (
	buildRows = 20_000_000
	lookups   = 1 << 20 // half of them hits
)

// breachedSide is an index of leaked passwords, and what builds one.
type breachedSide struct {
	dir, guardd, self string
	big               sample // of the build of the index
	index             *breached.Index
	asked             []breached.Hash
	hits              int
}

func newBreachedSide(root string) (_ *breachedSide, err error) {
	s := &breachedSide{}
	if s.dir, err = os.MkdirTemp("", "guardd-breached"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	var disk syscall.Statfs_t
	need := corpusRows*7 + buildRows*20 + 1<<30
	if err = syscall.Statfs(s.dir, &disk); err != nil {
		return nil, err
	}
	if free := uint64(disk.Bavail) * uint64(disk.Bsize); free < need {
		return nil, fmt.Errorf("%s has %d MB free, and %d are needed", s.dir, free>>20, need>>20)
	}
	if s.self, err = os.Executable(); err != nil {
		return nil, err
	}
	s.guardd = filepath.Join(s.dir, "guardd")
	build := exec.Command("go", "build", "-o", s.guardd, "./cmd/guardd")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building guardd: %w\n%s", err, out)
	}
	path := filepath.Join(s.dir, "corpus")
	if s.big, err = s.build(path, corpusRows, "--no-suffixes"); err != nil {
		return nil, err
	}
	if s.index, err = breached.Open(path); err != nil {
		return nil, err
	}
	// Which also brings all of it into the page cache.
	if err = s.index.Verify(context.Background(), nil); err != nil {
		return nil, err
	}
	return s, s.chooseHashes()
}

// chooseHashes takes hits from all over the corpus, and as many misses, in an
// order of chance.
func (s *breachedSide) chooseHashes() error {
	every, n := max(corpusRows/(lookups/2), 1), uint64(0)
	add := func(hi, mid uint64, lo uint32) error {
		b := make([]byte, 20)
		binary.BigEndian.PutUint64(b, hi)
		binary.BigEndian.PutUint64(b[8:], mid)
		binary.BigEndian.PutUint32(b[16:], lo)
		h, err := breached.HashOf(breached.SHA1, b)
		s.asked = append(s.asked, h)
		return err
	}
	var err error
	for h := newHashWalk(corpusRows); h.next() && err == nil && s.hits < lookups/2; n++ {
		if n%every == 0 {
			s.hits++
			err = add(h.hi, h.mid, h.lo)
		}
	}
	r := rand.New(rand.NewPCG(2, 2))
	for err == nil && len(s.asked) < 2*s.hits {
		err = add(r.Uint64(), r.Uint64(), r.Uint32())
	}
	r.Shuffle(len(s.asked), func(i, j int) { s.asked[i], s.asked[j] = s.asked[j], s.asked[i] })
	return err
}

// build pipes so many rows to "guardd breached build -".
func (s *breachedSide) build(path string, rows uint64, flags ...string) (sample, error) {
	generator := exec.Command(s.self, "hashes", fmt.Sprint(rows))
	builder := exec.Command(s.guardd, append([]string{"breached", "build", "-", "-o", path, "--json"}, flags...)...)
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	generator.Stdout, builder.Stdin = write, read
	said := &tail{}
	builder.Stderr = said
	begun := time.Now()
	if err := errors.Join(builder.Start(), generator.Start()); err != nil {
		return nil, errors.Join(err, read.Close(), write.Close())
	}
	if err := errors.Join(read.Close(), write.Close()); err != nil {
		return nil, err
	}
	peak := watchPeak(builder.Process.Pid)
	err = errors.Join(generator.Wait(), builder.Wait())
	memory, known := peak()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	took := time.Since(begun)
	cpu := func(c *exec.Cmd) float64 {
		return (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
	}
	m := float64(rows) / 1e6
	x := sample{"million rows/s": 2 * m / (cpu(generator) + cpu(builder)), "million rows/s by the clock": m / took.Seconds(),
		"ns of CPU a row": cpu(builder) / m * 1000}
	if known {
		x["MB of memory"] = memory
	}
	return x, nil
}

// generate is the floor of builds: the same rows, read by nobody.
func (s *breachedSide) generate() (sample, error) {
	from := selfCPU()
	err := hashes(io.Discard, buildRows)
	return sample{"ns": float64(selfCPU()-from) / buildRows}, err
}

func (s *breachedSide) building(flags ...string) func() (sample, error) {
	return func() (sample, error) { return s.build(filepath.Join(s.dir, "built"), buildRows, flags...) }
}

// look asks one core for everything once.
func (s *breachedSide) look() (sample, error) {
	x, err := timed(1, len(s.asked), func(_, n int) error {
		hits := 0
		for i := range n {
			v, err := s.index.Check(context.Background(), s.asked[i])
			if err != nil {
				return err
			}
			if v.Breached {
				hits++
			}
		}
		if hits != s.hits {
			return fmt.Errorf("%d of %d are found", hits, s.hits)
		}
		return nil
	})
	if err == nil {
		x["million/s"] = 1000 / x["ns"]
		i := 0
		x["allocations"] = testing.AllocsPerRun(1000, func() {
			_, e := s.index.Check(context.Background(), s.asked[i%len(s.asked)])
			err = errors.Join(err, e)
			i++
		})
	}
	return x, err
}

// hash is the floor of look-ups: what must be done before each.
func (s *breachedSide) hash() (sample, error) {
	password, sum := []byte("correct horse battery staple"), byte(0)
	x, err := timed(1, lookups, func(_, n int) error {
		for range n {
			h := sha1.Sum(password)
			sum += h[0]
		}
		return nil
	})
	x["sum"] = float64(sum) // so that it is done
	return x, err
}

func (s *breachedSide) sizes() (sample, error) {
	return sample{"bytes": s.index.Sizes().BytesPerRow(s.index.Info().Rows)}, nil
}

func (s *breachedSide) bigBuild() (sample, error) { return s.big, nil }

func (s *breachedSide) close() {
	if s.index != nil {
		_ = s.index.Close() // and its file goes
	}
	_ = os.RemoveAll(s.dir)
}

func (s *breachedSide) groups() []group {
	of := func(rows uint64) string { return fmt.Sprintf("%d million rows", rows/1_000_000) }
	const piped = "a generator piped to build -"
	return []group{
		{name: "breached, build", rounds: 3, floor: "generator", measure: "ns", unit: "ns of CPU a row",
			subjects: []subject{{"generator", s.generate}, {"build", s.building()}, {"build --no-suffixes", s.building("--no-suffixes")}, {"big build", s.bigBuild}},
			rows: []row{
				{What: "build, million rows/s of 2 cores", Against: piped, of: "build", measure: "million rows/s", higher: true, must: 10, aim: 12},
				{What: "the same by the clock", Against: piped, of: "build", measure: "million rows/s by the clock", higher: true, report: true},
				{What: "build --no-suffixes, the same", Against: piped, of: "build --no-suffixes", measure: "million rows/s", higher: true, must: 10, aim: 15},
				{What: "the same by the clock", Against: piped, of: "build --no-suffixes", measure: "million rows/s by the clock", higher: true, report: true},
				{What: "the same of " + of(corpusRows) + ", by the clock", Against: piped, of: "big build", measure: "million rows/s by the clock", higher: true, report: true},
				{What: "build of " + of(corpusRows) + ", memory", Against: "MB", of: "big build", measure: "MB of memory", must: 128, aim: 64},
			}},
		{name: "breached, look-up", floor: "SHA-1 of a password", measure: "ns", unit: "ns of CPU",
			subjects: []subject{{"SHA-1 of a password", s.hash}, {"look-up", s.look}, {"index", s.sizes}},
			rows: []row{
				{What: "look-up in " + of(corpusRows) + ", million/s", Against: "one core", of: "look-up", measure: "million/s", higher: true, must: 1, aim: 1.6},
				{What: "look-up", Against: "allocations", of: "look-up", measure: "allocations"},
				{What: "bytes a hash of " + of(corpusRows), Against: "beyond the tables", of: "index", measure: "bytes", must: 6.1, aim: 6.05},
			}},
	}
}
