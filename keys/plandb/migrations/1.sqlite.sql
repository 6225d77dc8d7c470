-- Whoever changes a row, by guardd or by hand, gives the whole a new version.
CREATE TRIGGER guardd_limits_rules_insert AFTER INSERT ON guardd_limits_rules
	BEGIN UPDATE guardd_limits_state SET version = version + 1 WHERE id = 1; END;
CREATE TRIGGER guardd_limits_rules_update AFTER UPDATE ON guardd_limits_rules
	BEGIN UPDATE guardd_limits_state SET version = version + 1 WHERE id = 1; END;
CREATE TRIGGER guardd_limits_rules_delete AFTER DELETE ON guardd_limits_rules
	BEGIN UPDATE guardd_limits_state SET version = version + 1 WHERE id = 1; END;
CREATE TRIGGER guardd_limits_plans_insert AFTER INSERT ON guardd_limits_plans
	BEGIN UPDATE guardd_limits_state SET version = version + 1 WHERE id = 1; END;
CREATE TRIGGER guardd_limits_plans_update AFTER UPDATE ON guardd_limits_plans
	BEGIN UPDATE guardd_limits_state SET version = version + 1 WHERE id = 1; END;
CREATE TRIGGER guardd_limits_plans_delete AFTER DELETE ON guardd_limits_plans
	BEGIN UPDATE guardd_limits_state SET version = version + 1 WHERE id = 1; END;
CREATE TRIGGER guardd_limits_keys_insert AFTER INSERT ON guardd_limits_keys
	BEGIN UPDATE guardd_limits_state SET version = version + 1 WHERE id = 1; END;
CREATE TRIGGER guardd_limits_keys_update AFTER UPDATE ON guardd_limits_keys
	BEGIN UPDATE guardd_limits_state SET version = version + 1 WHERE id = 1; END;
CREATE TRIGGER guardd_limits_keys_delete AFTER DELETE ON guardd_limits_keys
	BEGIN UPDATE guardd_limits_state SET version = version + 1 WHERE id = 1; END;
