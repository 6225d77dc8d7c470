-- What was drawn of quotas: one row a key, rule and period. serve writes here, and
-- nowhere else: it needs SELECT, INSERT, UPDATE and DELETE on this table.
CREATE TABLE guardd_limits_usage (
	account TEXT   NOT NULL,                     -- keyed hash of the key, as in logs
	rule    TEXT   NOT NULL,
	start   BIGINT NOT NULL,                     -- of the period, microseconds since 1970
	until   BIGINT NOT NULL,                     -- when the row can go
	drawn   BIGINT NOT NULL,                     -- tokens: spent, and in hand at instances
	quota   BIGINT NOT NULL,                     -- what told is of
	told    BIGINT NOT NULL,                     -- the highest percentage told
	PRIMARY KEY (account, rule, start)
);
CREATE INDEX guardd_limits_usage_until ON guardd_limits_usage (until);
