-- What the serving role may do; called by `migrate` when that role is not the owner. On the log: read and append,
-- nothing else.
CREATE FUNCTION grant_serving_role(serving_role text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT SELECT ON schema_migration, erasure TO %I', serving_role);
    EXECUTE format('GRANT SELECT, UPDATE ON ledger_head TO %I', serving_role);
    EXECUTE format(
        'GRANT SELECT, INSERT ON event, event_name, evidence, jws_header, identity, server_secret TO %I', serving_role);
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE, DELETE ON original_view, projection, rebuild, work_failure, seen, tree_node,
            command_key, store_quota, store_sweep, store_watch, store_stream, store_import, web_lookup, web_stream, web_import,
            drift, drift_key, drift_count, drift_stream, chart_part, answer_scope, answer_watch,
            webhook_secret, webhook_endpoint, webhook_message, webhook_delivery, webhook_line,
            webhook_stream, console_session, console_link TO %I', serving_role);
END
$$;
REVOKE ALL ON FUNCTION grant_serving_role(text) FROM PUBLIC;
