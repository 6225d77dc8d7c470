package keys_test

import (
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
)

func TestTwinWalksWithTheOracle(t *testing.T) {
	steps := 10_000
	if testing.Short() {
		steps = 1_000
	}
	keystest.Walk(t, 20, steps, keystest.Named{Name: "twin", Subject: keystest.Twin{Memory: keys.NewMemory(keys.MemoryConfig{})}})
}

func TestPlanWalks(t *testing.T) {
	keystest.PlanWalk(t, 20, 3_000, keystest.PlanNamed{Name: "twin", Subject: keys.NewMemory(keys.MemoryConfig{})})
}

func TestSlotWalks(t *testing.T) {
	keystest.SlotWalk(t, 20, 3_000, keystest.SlotNamed{Name: "twin", Subject: keys.NewMemory(keys.MemoryConfig{})})
}
