package main

import "github.com/guardd/guardd/escalation"

// replayPolicy reads the policy that serve would run with the same files, and
// nothing but the policy: an old log is often replayed where the service's
// secrets, keys and Redis are not. It returns where the policy is from too.
func replayPolicy(configFile, policyFile string) (p *escalation.Policy, from string, err error) {
	c, from, err := readPolicyOf(configFile, policyFile, false)
	if err != nil {
		return nil, "", err
	}
	return c.policy, from, nil
}

// readPolicyOf is replayPolicy, if need be with the peppers that the policy names. The
// configuration is checked as far as its policy.
func readPolicyOf(configFile, policyFile string, peppers bool) (c *config, from string, err error) {
	c = defaults()
	var bad faults
	if err := c.readFile(configFile, &bad); err != nil {
		return nil, "", err
	}
	if policyFile != "" {
		c.Policy = policyFile
	}
	p := c.choosePolicy(&bad)
	switch {
	case p == nil:
		return nil, "", bad
	case c.Policy != "":
		from = c.Policy
	case c.Realms != nil:
		from = configFile
	default:
		from = "built-in default"
	}
	for _, r := range p.Realms {
		if r != nil && !peppers {
			r.PepperFile = "" // names are hashed under a secret of the replay's own
		}
	}
	if peppers {
		file := configFile
		if c.Policy != "" {
			file = c.Policy
		}
		c.readPeppers(file, p, &bad)
	}
	validatePolicy(p, &bad)
	c.policy = p
	return c, from, bad.err()
}
