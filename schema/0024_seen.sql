-- What the log speaks of: kinds of remarks on notifications (things for a person to look at), and products. Counted
-- behind the log, as far as row 'seen' of table projection says.
CREATE TABLE seen (
    ledger_id integer NOT NULL,
    kind text NOT NULL CHECK (kind IN ('remark', 'product')),
    name text NOT NULL,
    events bigint NOT NULL,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL,
    PRIMARY KEY (ledger_id, kind, name)
) WITH (fillfactor = 50);

-- As before, and the tables that came since.
CREATE OR REPLACE FUNCTION grant_serving_role(serving_role text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT SELECT ON schema_migration TO %I', serving_role);
    EXECUTE format('GRANT SELECT, UPDATE ON ledger_head TO %I', serving_role);
    EXECUTE format('GRANT SELECT, INSERT ON event, evidence, jws_header TO %I', serving_role);
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON event_key, identity TO %I', serving_role);
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE, DELETE ON original_view, original_view_second, projection, rebuild, seen, '
        'command_key TO %I', serving_role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON api_key TO %I', serving_role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION ensure_partitions(bigint) TO %I', serving_role);
END
$$;
