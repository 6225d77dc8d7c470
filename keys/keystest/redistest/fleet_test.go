package redistest

import (
	"context"
	"testing"
	"time"
)

func TestClusterServesEverySlotAndComesBack(t *testing.T) {
	ctx := context.Background()
	c := StartCluster(t, Options{TLS: true, ACL: true})
	fill := func() {
		client := c.Client()
		for i := range 100 {
			if err := client.Set(ctx, string(rune('a'+i)), i, time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	for _, n := range c.Nodes {
		if held, err := n.Client().DBSize(ctx).Result(); err != nil || held == 0 {
			t.Errorf("a node holds %d keys (%v)", held, err)
		}
	}
	c.Stop()
	c.Restart()
	fill()
}

func TestSentinelsReplaceAPrimaryThatIsGone(t *testing.T) {
	ctx := context.Background()
	s := StartSentinels(t, Options{TLS: true, ACL: true})
	if s.Master() != s.Primary.Addr() {
		t.Fatalf("the sentinels name %s, the primary is %s", s.Master(), s.Primary.Addr())
	}
	if err := s.Primary.Client().Set(ctx, "a", "1", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	Until(t, "the key to reach the replica", func() bool { return s.Replica.Client().Get(ctx, "a").Val() == "1" })
	s.Primary.Stop()
	s.AwaitFailover()
	if err := s.Replica.Client().Set(ctx, "b", "2", time.Minute).Err(); err != nil {
		t.Error(err)
	}
}
