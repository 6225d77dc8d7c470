package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/breached"
)

// breachedConfig is where answers about leaked passwords come from.
type breachedConfig struct {
	Files        []string     `yaml:"files"`
	Public       bool         `yaml:"public"`
	MinimumCount int          `yaml:"minimum_count"`
	Remote       remoteConfig `yaml:"remote"`
}

// remoteConfig is the range service that is asked where no file knows; without
// a URL none is.
type remoteConfig struct {
	URL     string   `yaml:"url"`
	Timeout duration `yaml:"timeout"`
	Cache   int      `yaml:"cache"`
	Fresh   duration `yaml:"fresh"`
}

func defaultBreached() breachedConfig {
	return breachedConfig{MinimumCount: 1, Remote: remoteConfig{
		Timeout: duration(breached.DefaultRemoteTimeout), Cache: breached.DefaultRemoteCache, Fresh: duration(breached.DefaultRemoteFresh),
	}}
}

// fileList is a setting of several files, with commas between them.
type fileList []string

// UnmarshalText reads "a,b".
func (l *fileList) UnmarshalText(text []byte) error {
	*l = nil
	for f := range strings.SplitSeq(string(text), ",") {
		if f == "" {
			return errors.New("must be files with commas between them, and one of them is missing")
		}
		*l = append(*l, f)
	}
	return nil
}

func (c *breachedConfig) check(bad *faults) {
	if n := len(breached.Kinds); len(c.Files) > n {
		bad.add("breached.files", "%d files; at most one of each kind, so %d", len(c.Files), n)
	}
	for i, f := range c.Files {
		if _, err := os.Stat(f); err != nil {
			bad.add(fmt.Sprintf("breached.files[%d]", i), "%v", err)
		}
	}
	if c.MinimumCount < 1 {
		bad.add("breached.minimum_count", "must be 1 or more, not %d", c.MinimumCount)
	}
	r := &c.Remote
	if r.Timeout < duration(time.Millisecond) || r.Timeout > duration(time.Minute) {
		bad.add("breached.remote.timeout", "must be from 1ms to 1m, not %s", r.Timeout)
	}
	if r.Cache < 0 || r.Cache > 1<<20 {
		bad.add("breached.remote.cache", "must be from 0 to %d ranges, not %d", 1<<20, r.Cache)
	}
	if r.Fresh < 0 {
		bad.add("breached.remote.fresh", "must not be negative, and is %s", r.Fresh)
	}
	if _, err := r.open(); err != nil {
		bad.add("breached.remote.url", "%s", strings.TrimPrefix(err.Error(), "url: "))
	}
	if c.Public && len(c.Files) == 0 && r.URL == "" {
		bad.add("breached.public", "there is nothing to serve: breached.files or breached.remote.url are needed")
	}
}

// open returns the remote source, nil for none.
func (r *remoteConfig) open() (*breached.Remote, error) {
	if r.URL == "" {
		return nil, nil
	}
	c := breached.RemoteConfig{URL: r.URL, Timeout: time.Duration(r.Timeout), Cache: r.Cache, Fresh: time.Duration(r.Fresh)}
	if r.Cache == 0 {
		c.Cache = -1
	}
	if r.Fresh == 0 {
		c.Fresh = 1 // asked again each time, by its tag
	}
	return breached.NewRemote(c)
}

// corpora are the files that lie where the configuration says.
type corpora struct {
	files   []*corpus
	log     *slog.Logger
	metrics *metrics
	hup     chan struct{}
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// corpus is one of them.
type corpus struct {
	*breached.Live
	path string
	said string // the fault that was told last
}

// lookEvery is how often the files are looked at: two stats each.
const lookEvery = 5 * time.Second

// openBreached opens every corpus and watches over them.
func (s *server) openBreached() error {
	c := &corpora{log: s.log, metrics: s.metrics, hup: make(chan struct{}, 1)}
	s.corpora = c
	s.undo.push(c.close)
	var chain breached.Chain
	seen := map[breached.Kind]string{}
	for i, path := range s.config.Breached.Files {
		live, err := breached.OpenLive(path)
		if err != nil {
			return fmt.Errorf("breached.files[%d]: %w", i, err)
		}
		k := live.Info().Kind
		c.files = append(c.files, &corpus{Live: live, path: path})
		if other, twice := seen[k]; twice {
			return fmt.Errorf("breached.files[%d]: %s and %s are both of %v", i, other, path, k)
		}
		seen[k] = path
		c.tell("opened", c.files[i])
		chain = append(chain, live)
	}
	remote, err := s.config.Breached.Remote.open()
	if err != nil {
		return fmt.Errorf("breached.remote: %w", err)
	}
	if remote != nil {
		s.undo.push(remote.Close)
		s.log.Info("asking for ranges of leaked passwords elsewhere", "url", redactURL(s.config.Breached.Remote.URL))
		chain = append(chain, remote)
	}
	if len(chain) > 0 {
		s.breached = chain
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.done.Go(func() { c.watch(ctx) })
	return nil
}

// breachedAPI is what both listeners answer from.
func (s *server) breachedAPI() api.BreachedConfig {
	b := &s.config.Breached
	return api.BreachedConfig{Source: s.breached, Public: b.Public, MinimumCount: uint64(b.MinimumCount), Looked: s.metrics.lookedUp}
}

// watch takes a new file as soon as it lies there whole. While its checksums
// are compared the old one answers.
func (c *corpora) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.hup:
		}
		for _, f := range c.files {
			c.look(ctx, f)
		}
	}
}

// look says once what became of a file.
func (c *corpora) look(ctx context.Context, f *corpus) {
	kind := f.Info().Kind
	changed, err := f.Reload(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case changed && f.Info().Kind != kind:
		// What it answered so far is answered by nobody now; that is not what
		// anybody means by a newer file.
		err = fmt.Errorf("it is of %v now, and was of %v", f.Info().Kind, kind)
	case changed:
		f.said = ""
		c.metrics.corpusReloaded(kind, "loaded")
		c.tell("replaced", f)
		return
	}
	c.metrics.corpusIs(f.Live)
	if err == nil {
		f.said = ""
		return
	}
	if text := err.Error(); text != f.said {
		f.said = text
		c.metrics.corpusReloaded(kind, "refused")
		c.log.Error("a corpus of leaked passwords is not taken", "file", f.path, "kind", kind.String(), "answering", f.Err() == nil, "error", err)
	}
}

func (c *corpora) tell(what string, f *corpus) {
	i, source := f.Info(), "unknown"
	if !i.Source.IsZero() {
		source = i.Source.Format(time.DateOnly)
	}
	c.metrics.corpusIs(f.Live)
	c.log.Info("corpus of leaked passwords "+what, "file", f.path, "kind", i.Kind.String(), "rows", i.Rows, "complete", i.Complete, "ranges", i.Ranges, "source", source)
}

// reload has the files looked at now.
func (c *corpora) reload() {
	select {
	case c.hup <- struct{}{}:
	default: // it is to come anyway
	}
}

func (c *corpora) close() error {
	if c.stop != nil {
		c.stop()
	}
	c.done.Wait()
	var err error
	for _, f := range c.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
