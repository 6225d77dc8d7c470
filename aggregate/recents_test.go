package aggregate_test

import (
	"testing"

	"github.com/guardd/guardd/aggregate/aggregatetest"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
	"github.com/guardd/guardd/keys/redisstore"
)

func TestRecentsInMemory(t *testing.T) {
	aggregatetest.Recents(t, keys.NewMemory(keys.MemoryConfig{}), "default")
}

func TestRecentsInRedis(t *testing.T) {
	const long = 10e9
	client, err := redisstore.Open(redistest.Start(t).URL(), long)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	aggregatetest.Recents(t, redisstore.New(redisstore.Config{Client: client, Deadline: long}), "default")
}
