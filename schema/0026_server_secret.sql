-- What all instances of the service must know and nobody else may: the key that customer tokens are signed with. Whoever
-- needs one first makes it; it never changes.
CREATE TABLE server_secret (
    ledger_id integer NOT NULL,
    name text NOT NULL,
    secret bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (ledger_id, name)
);

-- As before, and the tables that came since.
CREATE OR REPLACE FUNCTION grant_serving_role(serving_role text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT SELECT ON schema_migration TO %I', serving_role);
    EXECUTE format('GRANT SELECT, UPDATE ON ledger_head TO %I', serving_role);
    EXECUTE format('GRANT SELECT, INSERT ON event, evidence, jws_header, server_secret TO %I', serving_role);
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON event_key, identity TO %I', serving_role);
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE, DELETE ON original_view, original_view_second, projection, rebuild, seen, '
        'command_key TO %I', serving_role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON api_key TO %I', serving_role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION ensure_partitions(bigint) TO %I', serving_role);
END
$$;
