package main

import (
	"fmt"
	"os"

	"github.com/guardd/guardd/escalation"
)

// replayPolicy reads the policy that serve would run with the same files, and
// nothing but the policy: an old log is often replayed where the service's
// secrets, keys and Redis are not. It returns where the policy is from too.
func replayPolicy(configFile, policyFile string) (*escalation.Policy, string, error) {
	c, from := defaults(), "built-in default"
	var bad faults
	if configFile != "" {
		f, err := os.Open(configFile)
		if err != nil {
			return nil, "", fmt.Errorf("config: %w", err)
		}
		defer f.Close()
		bad, from = decode(f, c), configFile
		c.Policy = beside(configFile, c.Policy)
		if c.Policy != "" && c.Realms != nil {
			bad.add("policy", "names a file, but realms are given here too")
		}
	}
	if policyFile != "" {
		c.Policy = policyFile
	}
	p := &escalation.Policy{Realms: c.Realms}
	switch {
	case c.Policy != "":
		p, from = c.readPolicy(&bad), c.Policy
	case c.Realms == nil:
		p, from = escalation.DefaultPolicy(), "built-in default"
	}
	if p == nil {
		return nil, "", bad
	}
	for _, r := range p.Realms {
		if r != nil {
			r.PepperFile = "" // names are hashed under a secret of the replay's own
		}
	}
	validatePolicy(p, &bad)
	return p, from, bad.err()
}
