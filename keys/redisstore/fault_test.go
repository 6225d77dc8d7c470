package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// op is one call of a Store, on names of its own.
type op struct {
	name string
	key  string // what is under it shows whether the call happened
	do   func(s *Store) error
	// always: a mark that may be put late. Who is told of an error repeats it.
	always  bool
	command string // Redis's, by which it is counted
}

// ops prepares one of each, over a store that works.
func ops(t *testing.T, s subject, space keys.Space) []op {
	t.Helper()
	ctx := context.Background()
	account := keys.Account{1, 2, 3}
	rules := login(t, limit(t, 50, 1, 24*time.Hour))
	asked := func() *keys.Ask {
		a := ask(rules, 0)
		a.Keys = []string{space.Account("login", account), space.Global("login")}
		return a
	}
	first := asked()
	ans := take(t, s, first)
	code := &keys.CodeAsk{Account: account, Key: space.Code(account), SenderKey: space.State(), RevokedKey: space.Revoked(account)}
	var sent keys.CodeAnswer
	if err := s.SendCode(ctx, code, &sent); err != nil {
		t.Fatal(err)
	}
	other := keys.Account{4}
	var calls []op
	for name, do := range map[string]struct {
		key string
		do  func(s *Store) error
	}{
		"take": {first.Keys[0], func(s *Store) error {
			var ans keys.Answer
			return errors.Join(s.Take(ctx, asked(), &ans), late(ans.Status))
		}},
		"give": {space.Outcome("x"), func(s *Store) error {
			r := outcome(first, &ans, 0, keys.Success)
			r.OutcomeKey, r.PlaceKey, r.FailuresKey = space.Outcome("x"), "", ""
			var rcp keys.Receipt
			return errors.Join(s.Give(ctx, r, &rcp), late(rcp.Status))
		}},
		"tally": {space.Tally("x", "y"), func(s *Store) error {
			_, _, err := s.Tally(ctx, space.Tally("x", "y"), 0, keys.Day)
			return err
		}},
		"send code": {space.Code(other), func(s *Store) error {
			return s.SendCode(ctx, &keys.CodeAsk{Account: other, Key: space.Code(other), SenderKey: space.K(keys.Address{}.Counted()), RevokedKey: space.Revoked(other)}, &keys.CodeAnswer{})
		}},
		"spend code": {code.Key, func(s *Store) error {
			_, err := s.SpendCode(ctx, code.Key, sent.Code.Serial, 0)
			return err
		}},
		"put": {space.Revoked(other), func(s *Store) error { return s.Put(ctx, space.Revoked(other), []byte("x"), keys.Day) }},
		"revoke": {space.Revoked(account), func(s *Store) error {
			_, err := s.Revoke(ctx, space.Revoked(account), 0, keys.Day)
			return err
		}},
	} {
		command := "evalsha"
		if name == "put" {
			command = "set"
		}
		calls = append(calls, op{name, do.key, do.do, name == "put" || name == "revoke", command})
	}
	return calls
}

func late(s keys.Status) error {
	if s == keys.Late {
		return keys.ErrLate
	}
	return nil
}

// Whatever happens on the way, a call ends by its deadline, says what kind of
// fault it was, and is made once: it changed nothing, or did its work and the
// reply was lost.
func TestEachCallEndsByItsDeadlineInBothForms(t *testing.T) {
	server := redistest.Start(t)
	direct := open(t, server)
	proxy := redistest.StartProxy(t, server.Addr())
	const deadline = 150 * time.Millisecond
	client, err := Open(proxy.URL(), deadline)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s := New(Config{Client: client, Deadline: deadline})
	if err := s.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	space := 0
	for _, c := range []struct {
		name  string
		fault redistest.Fault
		kind  string
	}{{"hangs", redistest.Hang, "timeout"}, {"resets", redistest.Reset, "broken"}, {"is late", redistest.Late, "timeout"}, {"trickles", redistest.Trickle, "timeout"}} {
		for side, happens := range map[redistest.Side]bool{redistest.Requests: false, redistest.Replies: true} {
			t.Run(fmt.Sprintf("%s, happens %t", c.name, happens), func(t *testing.T) {
				space++
				for _, call := range ops(t, direct, keys.NewSpace("fault", space)) {
					// A connection that works, or the fault would befall its greeting.
					redistest.Until(t, "the way to be clear", func() bool { return client.Ping(context.Background()).Err() == nil })
					before, ran := dump(t, direct, call.key), calls(t, direct, call.command)
					proxy.Set(c.fault, side)
					err := call.do(s)
					proxy.Release()
					if Kind(err) != c.kind || (c.kind == "timeout") != errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s: %v (%s), want %s", call.name, err, Kind(err), c.kind)
					}
					happened := happens
					if c.fault == redistest.Late || happens {
						// It is there by now, or comes: then it sees that it is late.
						redistest.Until(t, call.name+" to reach Redis", func() bool { return calls(t, direct, call.command) > ran })
						happened = happens || call.always
					}
					if n := calls(t, direct, call.command) - ran; n > 1 {
						t.Errorf("%s went out %d times", call.name, n)
					}
					if got := dump(t, direct, call.key) != before; got != happened {
						t.Errorf("%s happened: %t, want %t", call.name, got, happened)
					}
				}
			})
		}
	}
	t.Run("refuses", func(t *testing.T) {
		for _, call := range ops(t, direct, keys.NewSpace("refused", 0)) {
			before := dump(t, direct, call.key)
			proxy.Refuse()
			if err := call.do(s); !slices.Contains([]string{"refused", "broken"}, Kind(err)) {
				t.Errorf("%s: %v (%s)", call.name, err, Kind(err))
			}
			if err := call.do(s); Kind(err) != "refused" {
				t.Errorf("%s, again: %v (%s)", call.name, err, Kind(err))
			}
			proxy.Listen()
			if dump(t, direct, call.key) != before {
				t.Errorf("%s happened", call.name)
			}
		}
		redistest.Until(t, "Redis to be found again", func() bool { return client.Ping(context.Background()).Err() == nil })
	})
}

func dump(t *testing.T, s subject, key string) string {
	t.Helper()
	v, err := s.raw.Dump(context.Background(), key).Result()
	if err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	return v
}

// calls is how often Redis has run a command.
func calls(t *testing.T, s subject, command string) (n int) {
	t.Helper()
	info, err := s.raw.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "cmdstat_"+command+":calls=")
	fmt.Sscan(strings.Split(rest, ",")[0], &n)
	return n
}

// kindOfTake is what becomes of a Take; "" is no error.
func kindOfTake(s *Store, a *keys.Ask) string {
	return Kind(s.Take(context.Background(), a, &keys.Answer{}))
}

func TestWhatRedisSaysOfItselfIsNamed(t *testing.T) {
	ctx := context.Background()
	rules := login(t, limit(t, 50, 1, 24*time.Hour))
	t.Run("LOADING", func(t *testing.T) {
		server := redistest.Start(t)
		s := open(t, server)
		for i := range 2000 {
			if err := s.raw.Set(ctx, fmt.Sprint("fill", i), strings.Repeat("x", 100), time.Hour).Err(); err != nil {
				t.Fatal(err)
			}
		}
		server.RestartLoading()
		redistest.Until(t, "the old connections to be gone", func() bool { return kindOfTake(s.Store, ask(rules, 0)) != "broken" })
		if k := kindOfTake(s.Store, ask(rules, 0)); k != "loading" {
			t.Errorf("while it loads: %q", k)
		}
	})
	t.Run("MISCONF", func(t *testing.T) {
		server := redistest.Start(t)
		s := open(t, server)
		take(t, s, ask(rules, 0))
		before := everything(t, s)
		// A file cannot be renamed to what is a directory.
		for _, err := range []error{os.Mkdir(filepath.Join(server.Dir(), "dump.rdb"), 0o700),
			s.raw.ConfigSet(ctx, "save", "3600 1").Err(), s.raw.BgSave(ctx).Err()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		redistest.Until(t, "saving to fail", func() bool {
			info, err := s.raw.Info(ctx, "persistence").Result()
			return err == nil && strings.Contains(info, "rdb_last_bgsave_status:err")
		})
		if k := kindOfTake(s.Store, ask(rules, 0)); k != "readonly" {
			t.Errorf("while it cannot save: %q", k)
		}
		if after := everything(t, s); after != before {
			t.Errorf("it wrote:\n%s\nbefore\n%s", after, before)
		}
	})
	t.Run("too many clients", func(t *testing.T) {
		server := redistest.Start(t)
		raw := server.Client()
		if err := raw.ConfigSet(ctx, "maxclients", "1").Err(); err != nil {
			t.Fatal(err)
		}
		if k := kindOfTake(open(t, server).Store, ask(rules, 0)); k != "pool" && k != "broken" { // it says why and hangs up, in whichever order they arrive
			t.Errorf("with no room for a connection: %q", k)
		}
	})
	t.Run("pool exhausted", func(t *testing.T) {
		server := redistest.Start(t)
		client, err := Open(server.URL()+"?pool_size=1", 20*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		s := New(Config{Client: client, Deadline: 10 * time.Second})
		if k := kindOfTake(s, ask(rules, 0)); k != "" {
			t.Fatal(k)
		}
		server.Pause()
		var wg sync.WaitGroup
		first, give := context.WithCancel(ctx)
		wg.Go(func() { _ = s.Take(first, ask(rules, 0), &keys.Answer{}) })
		redistest.Until(t, "the one connection to be taken", func() bool { return client.PoolStats().IdleConns == 0 })
		if k := kindOfTake(s, ask(rules, 0)); k != "pool" {
			t.Errorf("behind a call that hangs: %q", k)
		}
		give()
		server.Resume()
		wg.Wait()
	})
	for said, want := range map[string]string{
		"-LOADING Redis is loading the dataset in memory\r\n": "loading", "-READONLY You can't write against a read only replica.\r\n": "readonly",
		"-MASTERDOWN Link with MASTER is down\r\n": "cluster", "-BUSY Redis is busy running a script.\r\n": "busy",
		"-NOREPLICAS Not enough good replicas to write.\r\n": "readonly", "-ERR max number of clients reached\r\n": "pool",
		"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n": "other",
		":7\r\n": "script", "$-1\r\n": "other", "$3\r\nyes\r\n": "script", "*0\r\n": "other", "nonsense\r\n": "other",
		redistest.Bulk(strings.Repeat("\xff", 200)): "script",
	} {
		t.Run(fmt.Sprintf("%.20q", said), func(t *testing.T) {
			fake := redistest.StartFake(t, func(command []string) string {
				if strings.EqualFold(command[0], "hello") {
					return "-ERR unknown command 'hello'\r\n"
				}
				return said
			})
			if k := kindOfTake(openURL(t, fake.URL(), nil, nil).Store, ask(rules, 0)); k != want {
				t.Errorf("%q, want %q", k, want)
			}
		})
	}
	t.Run("NOSCRIPT for ever", func(t *testing.T) {
		sent := 0
		fake := redistest.StartFake(t, func(command []string) string {
			if strings.HasPrefix(strings.ToLower(command[0]), "eval") {
				sent++
			}
			return "-NOSCRIPT No matching script.\r\n"
		})
		if k := kindOfTake(openURL(t, fake.URL(), nil, nil).Store, ask(rules, 0)); k != "noscript" || sent != 2 {
			t.Errorf("%q after %d calls", k, sent)
		}
	})
}

func TestWhatAClusterSaysOfItselfIsNamed(t *testing.T) {
	ctx := context.Background()
	c := redistest.StartCluster(t, redistest.Options{ACL: true})
	s := openURL(t, c.URL(), nil, c.Client())
	if err := s.Load(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(known(s.Store)); n != 3 {
		t.Errorf("the clocks of %d nodes are known, want 3", n)
	}
	rules := login(t, limit(t, 50, 1, 24*time.Hour))
	// Three realms, one a node.
	home := map[string]*redistest.Server{}
	var tags []string
	for i := 0; len(tags) < 3; i++ {
		tag := fmt.Sprint("t", i)
		node, err := s.client.(*redis.ClusterClient).MasterForKey(ctx, "{"+tag+"}")
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(c.Nodes, func(n *redistest.Server) bool { return n.Addr() == node.Options().Addr })
		if !slices.Contains(tags, tag) && !slices.ContainsFunc(tags, func(o string) bool { return home[o] == c.Nodes[at] }) {
			tags, home[tag] = append(tags, tag), c.Nodes[at]
		}
	}
	in := func(tag string) *keys.Ask {
		a := ask(rules, 0)
		a.Keys = []string{"gd:{" + tag + "}:a", "gd:{" + tag + "}:b"}
		return a
	}
	slot := func(tag string) int64 { return home[tag].Client().ClusterKeySlot(ctx, "{"+tag+"}").Val() }
	id := func(n *redistest.Server) string { return n.Client().Do(ctx, "cluster", "myid").Val().(string) }
	set := func(n *redistest.Server, args ...any) {
		t.Helper()
		if err := n.Client().Do(ctx, append([]any{"cluster"}, args...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	other := func(n *redistest.Server) *redistest.Server { return c.Nodes[(slices.Index(c.Nodes, n)+1)%3] }

	// A slot on its way: what has one key follows it, what has several and
	// finds some here and none there has to wait until it has arrived.
	from, to := home[tags[0]], other(home[tags[0]])
	set(to, "setslot", slot(tags[0]), "importing", id(from))
	set(from, "setslot", slot(tags[0]), "migrating", id(to))
	if n, _, err := s.Tally(ctx, "gd:{"+tags[0]+"}:tally", 0, keys.Day); n != 1 || err != nil {
		t.Errorf("ASK: %d, %v", n, err)
	}
	if k := kindOfTake(s.Store, in(tags[0])); k != "cluster" {
		t.Errorf("TRYAGAIN: %q", k)
	}
	set(from, "setslot", slot(tags[0]), "stable")
	set(to, "setslot", slot(tags[0]), "stable")

	// A slot that has moved is found where it is, by every call.
	to = other(home[tags[1]])
	for _, n := range append([]*redistest.Server{to}, c.Nodes...) {
		set(n, "setslot", slot(tags[1]), "node", id(to))
	}
	if k := kindOfTake(s.Store, in(tags[1])); k != "" {
		t.Errorf("MOVED: %q", k)
	}
	if n := to.Client().Exists(ctx, "gd:{"+tags[1]+"}:a").Val(); n != 1 {
		t.Error("it is not where the slot has moved")
	}

	// Nobody has the slot, by everybody's word.
	for _, n := range c.Nodes {
		set(n, "delslots", slot(tags[2]))
	}
	if k := kindOfTake(s.Store, in(tags[2])); k != "cluster" {
		t.Errorf("CLUSTERDOWN: %q", k)
	}
}

// known are the addresses of the servers whose clocks are known.
func known(s *Store) (addrs []string) {
	s.servers.by.Range(func(addr, c any) bool {
		if c.(*server).known {
			addrs = append(addrs, addr.(string))
		}
		return true
	})
	return addrs
}

// twoNodes are a Cluster of two that say what say says to a script, beside what
// a client has to know. The first half of the slots is the first's.
func twoNodes(t *testing.T, say func(node int, command []string) string) (rawURL string) {
	t.Helper()
	var nodes [2]*redistest.Fake
	var ready sync.WaitGroup
	ready.Add(1)
	for i := range nodes {
		nodes[i] = redistest.StartFake(t, func(command []string) string {
			ready.Wait()
			switch strings.ToLower(command[0]) {
			case "hello":
				return "-ERR unknown command 'hello'\r\n"
			case "cluster":
				half := func(from, to int, n *redistest.Fake) string {
					return fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*2\r\n%s:%d\r\n", from, to, redistest.Bulk("127.0.0.1"), n.Port())
				}
				return "*2\r\n" + half(0, 8191, nodes[0]) + half(8192, 16383, nodes[1])
			}
			return say(i, command)
		})
	}
	ready.Done()
	return nodes[0].URL() + "?addr=" + nodes[1].Addr()
}

// A client that is sent from node to node for ever gives up.
func TestAStormOfMovedEnds(t *testing.T) {
	var mu sync.Mutex
	var addrs [2]string
	hops := 0
	rawURL := twoNodes(t, func(node int, command []string) string {
		mu.Lock()
		defer mu.Unlock()
		hops++
		return "-MOVED 1 " + addrs[1-node] + "\r\n"
	})
	mu.Lock()
	first, second, _ := strings.Cut(strings.TrimPrefix(rawURL, "redis://"), "?addr=")
	addrs = [2]string{first, second}
	mu.Unlock()
	s := openURL(t, rawURL, nil, nil)
	if k := kindOfTake(s.Store, ask(login(t, limit(t, 50, 1, time.Hour)), 0)); k != "cluster" {
		t.Errorf("%q", k)
	}
	mu.Lock()
	defer mu.Unlock()
	if hops < 2 || hops > 5 {
		t.Errorf("it was sent on %d times", hops)
	}
}

// Nodes whose clocks are an hour apart: a deadline goes by the clock of the node
// that it is sent to, or every call to one of them would come late, and none to
// the other ever.
func TestEachNodeOfAClusterHasAClockOfItsOwn(t *testing.T) {
	apart := [2]time.Duration{-30 * time.Minute, 30 * time.Minute}
	var mu sync.Mutex
	deadlines := [2]int{}
	rawURL := twoNodes(t, func(node int, command []string) string {
		now := time.Now().Add(apart[node]).UnixMicro()
		if !strings.EqualFold(command[0], "evalsha") {
			return "-ERR unknown command\r\n"
		}
		said, deadline := fakeTally(command, now)
		mu.Lock()
		defer mu.Unlock()
		if deadline > 0 && deadline < now+11*keys.Second {
			deadlines[node]++
		}
		return said
	})
	s := openURL(t, rawURL, nil, nil)
	for range 5 {
		for i := range 8 { // tags of either half
			if _, _, err := s.Tally(context.Background(), fmt.Sprintf("gd:{%d}:x", i), 0, keys.Day); err != nil {
				t.Error(err)
			}
		}
	}
	// The first call to each goes without: nothing has shown its time yet.
	if deadlines[0]+deadlines[1] != 5*8-2 || deadlines[0] == 0 || deadlines[1] == 0 {
		t.Errorf("deadlines in time went to the nodes %d and %d times, of 40 calls", deadlines[0], deadlines[1])
	}
}

// fakeTally says what tally.lua says at now of a window of a day.
func fakeTally(command []string, now int64) (said string, deadline int64) {
	double := func(n int64) string {
		return string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(n))))
	}
	head := []byte(command[len(command)-1])
	deadline = int64(math.Float64frombits(binary.LittleEndian.Uint64(head[8:])))
	if deadline > 0 && now > deadline {
		return redistest.Bulk("\x01" + double(now)), deadline
	}
	return redistest.Bulk("\x00" + double(now) + double(1) + double(0) + double(keys.Day)), deadline
}

// After a failover another server answers at the same address, with another
// clock: one call may come late by the old one, but no second.
func TestAServerWithAnotherClockIsLateOnce(t *testing.T) {
	var ahead atomic.Int64
	fake := redistest.StartFake(t, func(command []string) string {
		if !strings.EqualFold(command[0], "evalsha") {
			return "-ERR unknown command\r\n"
		}
		said, _ := fakeTally(command, time.Now().UnixMicro()+ahead.Load())
		return said
	})
	s := openURL(t, fake.URL(), nil, nil)
	tally := func() error {
		_, _, err := s.Tally(context.Background(), "x", 0, keys.Day)
		return err
	}
	for range 2 {
		if err := tally(); err != nil {
			t.Fatal(err)
		}
	}
	ahead.Store(3600 * keys.Second)
	if err := tally(); !errors.Is(err, keys.ErrLate) {
		t.Errorf("by the old clock: %v", err)
	}
	if err := tally(); err != nil {
		t.Errorf("by the new one: %v", err)
	}
}

// What broke off may have happened: a Cluster's client must not send it again,
// as it does with other commands; neither where it is known to live, nor where a
// node sent it on to.
func TestAClusterIsAskedOnce(t *testing.T) {
	for name, sentOn := range map[string]int64{"where it lives": 0, "sent on": 1} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			var mu sync.Mutex
			var addrs [2]string
			rawURL := twoNodes(t, func(node int, _ []string) string {
				mu.Lock()
				defer mu.Unlock()
				if asked.Add(1) > sentOn {
					return ""
				}
				return "-MOVED 1 " + addrs[1-node] + "\r\n"
			})
			mu.Lock()
			addrs[0], addrs[1], _ = strings.Cut(strings.TrimPrefix(rawURL, "redis://"), "?addr=")
			mu.Unlock()
			s := openURL(t, rawURL, nil, nil)
			if k := kindOfTake(s.Store, ask(login(t, limit(t, 50, 1, time.Hour)), 0)); k != "broken" || asked.Load() != 1+sentOn {
				t.Errorf("%q after %d calls", k, asked.Load())
			}
		})
	}
}
