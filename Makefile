# Every target works on a fresh Debian or macOS machine: scripts/need.sh
# installs what is missing where it can (apt-get as root), and names it where
# it cannot. Each recipe line can be run by hand.

GO       ?= go
FUZZTIME ?= 20s
SOAK     ?= 20
OUTAGE   ?= 1m
ARGS     ?=

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help run demo build test test-kafka race fuzz soak bench simulate pictures lint fmt

help: ## say what each target does
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 10

run: need-go ## start guardd on 127.0.0.1:8080 with no configuration (ARGS="--shadow" adds flags)
	$(GO) run ./cmd/guardd serve $(ARGS)

demo: need-go ## a shop login behind guardd, to try and to attack, on http://127.0.0.1:8090
	$(GO) run ./cmd/demo $(ARGS)

build: need-go ## build bin/guardd
	$(GO) build -trimpath -o bin/guardd ./cmd/guardd

test: need-go need-redis need-postgres need-chromium need-npm need-prometheus need-soc ## run every test, those against a real redis-server, PostgreSQL and browser too
	$(GO) test ./...
	cd bench && $(GO) test -mod=mod ./...
	cd dashboards/gen && $(GO) test -mod=mod ./...

test-kafka: need-go need-kafka ## the tests of events against a real Apache Kafka, killed and hung for OUTAGE (1m)
	jars=$$(scripts/kafka.sh) && export GUARDD_TEST_KAFKA_JARS="$$jars" GUARDD_TEST_OUTAGE=$(OUTAGE) && \
	$(GO) test -v -p 1 -count=1 -timeout 30m ./aggregate/kafkabus/... && \
	$(GO) test -v -count=1 -timeout 10m -run Kafka ./cmd/guardd

race: need-go need-cc need-redis need-postgres need-chromium need-npm need-soc ## the same under the race detector
	$(GO) test -race -timeout 30m ./...

fuzz: need-go ## each fuzz target for FUZZTIME (20s)
	GO=$(GO) scripts/fuzz.sh $(FUZZTIME)

soak: need-go need-redis ## what takes minutes: the random walks with SOAK (20) times the seeds, storms, outages, floods, a week of simulated logins
	GUARDD_SOAK=$(SOAK) $(GO) test -v -count=1 -timeout 0 -run 'Walks' ./keys/...
	GUARDD_SOAK=$(SOAK) $(GO) test -v -count=1 -timeout 0 -run 'NoLockoutOverHistories' ./escalation
	GUARDD_SOAK=$(SOAK) $(GO) test -v -count=1 -timeout 0 -run 'NoLeakAtFleetSize|KilledInstances|RollingRestart|FrictionOnly|AFloodOfAccounts' ./cmd/guardd
	GUARDD_SOAK=$(SOAK) GUARDD_WEEKS=26 $(GO) test -v -count=1 -timeout 0 -run 'BothLevelsAgree|FalseAlarms' ./aggregate/sim

bench: need-go need-redis ## what a decision costs beside its peers, in some 8 minutes (ARGS="--json")
	cd bench && $(GO) run -mod=mod . $(ARGS)

pictures: need-go need-redis need-chromium ## the pictures of the status page in docs/, of a guardd that is attacked for five minutes
	d=$$(mktemp -d) && GUARDD_SCREENSHOTS=$$d $(GO) test -count=1 -timeout 20m -run TestStatusOfARealRun ./cmd/guardd && \
	cp $$d/TestStatusOfARealRun-status.png docs/status.png && cp $$d/TestStatusOfARealRun-phone.png docs/status-phone.png && rm -r $$d

simulate: build ## measure detection anew for the README, tables and plot, in some 15 minutes on two cores
	scripts/simulate.sh bin/guardd
	$(GO) run ./cmd/figures

lint: need-go ## formatting, vet, staticcheck, a tidy go.mod
	@test -z "$$(gofmt -l .)" || { echo "not formatted (make fmt):"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) mod tidy -diff
	$(GO) run $(STATICCHECK) ./...
	cd bench && $(GO) vet -mod=mod ./... && $(GO) run $(STATICCHECK) ./...
	cd dashboards/gen && $(GO) vet -mod=mod ./... && $(GO) run $(STATICCHECK) ./...

fmt: need-go ## format the code
	gofmt -w .

.PHONY: need-go need-redis need-postgres need-chromium need-npm need-prometheus need-soc need-cc need-kafka
need-go need-redis need-postgres need-chromium need-npm need-prometheus need-soc need-cc need-kafka: need-%:
	@GO=$(GO) scripts/need.sh $*
