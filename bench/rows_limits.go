package main

import (
	"errors"
	"os"
	"path/filepath"
)

// limitsSide is guardd's plan limits beside a bare handler, over one Redis.
type limitsSide struct{ *httpSide }

func newLimitsSide(root string) (*limitsSide, error) {
	h, err := newServers(root)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(h.dir, "limits.yaml")
	err = errors.Join(os.WriteFile(file, []byte(benchLimits), 0o600),
		h.bare("bare chi handler with the Redis call", "serve-bare-limits", h.node.addr),
		h.guardd("guardd, plan limits", append(h.overRedis, "--limits", file)...))
	if err != nil {
		h.close()
		return nil, err
	}
	return &limitsSide{h}, nil
}

func (s *limitsSide) groups() []group {
	const per = "requests/cpu s"
	bare := s.processes[0].name
	g := group{name: "http, plan limits", floor: bare, measure: per, unit: "requests a second of CPU, sender's, server's and Redis'",
		rows: []row{{What: "POST /v1/limits/take", Against: "a bare chi handler that makes the same Redis call",
			of: s.processes[1].name, base: bare, measure: per, higher: true, must: 0.8, aim: 0.8}}}
	for _, p := range s.processes {
		g.subjects = append(g.subjects, subject{p.name, s.saturated(p, (*session).take)})
	}
	return []group{g}
}
