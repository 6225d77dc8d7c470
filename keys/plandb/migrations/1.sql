-- Rules, plans and keys of plan limits, as package plans defines them. Lists and
-- tables are JSON. What is right, guardd judges and not the schema: a bad row is
-- skipped and told, so that it takes nobody's limits away.

-- One row: it changes with every change of the others, whoever makes it.
CREATE TABLE guardd_limits_state (
	id      BIGINT PRIMARY KEY,
	version BIGINT NOT NULL
);
INSERT INTO guardd_limits_state (id, version) VALUES (1, 0);

CREATE TABLE guardd_limits_rules (
	name          TEXT PRIMARY KEY,
	capacity      BIGINT NOT NULL,               -- tokens
	refill_count  BIGINT NOT NULL,               -- tokens per
	refill_period TEXT   NOT NULL,               -- duration, as 1h30m
	routes        TEXT   NOT NULL DEFAULT '{}',  -- {"GET /search": 5, "*": 1}
	counts        TEXT   NOT NULL DEFAULT 'cost',
	failure       TEXT   NOT NULL DEFAULT 'local',
	refund        TEXT   NOT NULL DEFAULT 'server',
	-- What a rule of another kind needs beside these (concurrency, quota, lease).
	-- A guardd that does not know the kind, or a setting, keeps off the row.
	kind          TEXT   NOT NULL DEFAULT 'rate',
	settings      TEXT   NOT NULL DEFAULT '{}'
);

CREATE TABLE guardd_limits_plans (
	name  TEXT PRIMARY KEY,
	rules TEXT NOT NULL                          -- ["burst", "daily"]
);

CREATE TABLE guardd_limits_keys (
	sha256    TEXT PRIMARY KEY,                  -- 64 lower-case hex digits
	name      TEXT NOT NULL DEFAULT '',
	plan      TEXT NOT NULL,
	overrides TEXT NOT NULL DEFAULT '[]',        -- [{"rule": "burst", "capacity": 100}]
	state     TEXT NOT NULL DEFAULT 'active'
);

-- Who changed what, and why: one line for each row that a change made, changed
-- or deleted.
CREATE TABLE guardd_limits_audit (
	version BIGINT NOT NULL,                     -- of the whole, after the change
	line    BIGINT NOT NULL,
	at_us   BIGINT NOT NULL,                     -- microseconds since 1970
	who     TEXT   NOT NULL,
	reason  TEXT   NOT NULL,
	action  TEXT   NOT NULL,
	kind    TEXT   NOT NULL,
	name    TEXT   NOT NULL,
	before  TEXT   NOT NULL,                     -- JSON; '' where there is none
	after   TEXT   NOT NULL,
	PRIMARY KEY (version, line)
);
CREATE INDEX guardd_limits_audit_at ON guardd_limits_audit (at_us);
