package keys_test

import (
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
)

func TestTwinPassesTheSuite(t *testing.T) {
	keystest.Run(t, func(t *testing.T) keystest.Subject {
		return keystest.Twin{Memory: keys.NewMemory(keys.MemoryConfig{})}
	})
}
