-- Whoever changes a row, by guardd or by hand, gives the whole a new version, once
-- a transaction (xmin says which wrote the state last), and wakes every instance.
-- The function finds the state in the schema in which it was made.
CREATE FUNCTION guardd_limits_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE guardd_limits_state SET version = version + 1 WHERE id = 1 AND xmin <> pg_current_xact_id()::xid;
	PERFORM pg_notify('guardd_limits', '');
	RETURN NULL;
END
$$;
DO $$
BEGIN
	EXECUTE format('ALTER FUNCTION guardd_limits_changed() SET search_path = %I', current_schema());
END
$$;

CREATE TRIGGER guardd_limits_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON guardd_limits_rules
	FOR EACH STATEMENT EXECUTE FUNCTION guardd_limits_changed();
CREATE TRIGGER guardd_limits_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON guardd_limits_plans
	FOR EACH STATEMENT EXECUTE FUNCTION guardd_limits_changed();
CREATE TRIGGER guardd_limits_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON guardd_limits_keys
	FOR EACH STATEMENT EXECUTE FUNCTION guardd_limits_changed();
