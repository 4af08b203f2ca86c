import PostgresClient

/// The indexes without which the ledger goes wrong, as `migrate` makes them.
enum LedgerIndexes {
    /// Unique indexes of all tables, each by what it covers: without one something could be there twice, and what is written
    /// with `ON CONFLICT` is refused.
    static let keys = [
        "schema_migration (version)",
        "ledger_head (ledger_id)",
        "event (ledger_id, position)",
        "event (ledger_id, dedup_key) WHERE (dedup_key IS NOT NULL)",
        "event_name (ledger_id, identity, environment, kind, original_transaction_id, position)",
        "evidence (ledger_id, position)",
        "erasure (ledger_id, position)",
        "jws_header (ledger_id, sha256)",
        "identity (ledger_id, identity)",
        "identity (ledger_id, value)",
        "original_view (ledger_id, generation, environment, original_transaction_id)",
        "projection (ledger_id, name)",
        "rebuild (ledger_id)",
        "work_failure (ledger_id, work, host)",
        "seen (ledger_id, kind, name)",
        "chart_part (ledger_id, level, number, environment, chart)",
        "tree_node (ledger_id, level, number)",
        "command_key (ledger_id, command_key)",
        "server_secret (ledger_id, name)",
        "console_session (ledger_id, token_sha256)",
        "console_link (ledger_id, token_sha256)",
        "store_quota (ledger_id, app, environment, kind)",
        "store_sweep (ledger_id, app, environment)",
        "store_watch (ledger_id, environment, original_transaction_id)",
        "store_stream (ledger_id, app, environment)",
        "store_import (ledger_id, app, environment, file_sha256)",
        "web_lookup (ledger_id, environment, subject)",
        "web_stream (ledger_id, environment)",
        "web_import (ledger_id, environment, owner_metadata, owners)",
        "drift (ledger_id, position)",
        "drift_key (ledger_id, identity, environment, original_transaction_id, position)",
        "drift_count (ledger_id, environment, class, app)",
        "drift_stream (ledger_id, app, environment)",
        "answer_scope (ledger_id, app)",
        "answer_watch (ledger_id, app, identity, environment)",
        "webhook_secret (ledger_id, endpoint, hash)",
        "webhook_endpoint (ledger_id, endpoint)",
        "webhook_message (ledger_id, number)",
        "webhook_delivery (ledger_id, endpoint, number)",
        "webhook_line (ledger_id, endpoint, identity, environment)",
        "webhook_stream (ledger_id, app, environment, source)",
    ]

    /// The other indexes of the log: without one answers are right, and slow.
    static let ofTheLog = ["event_original", "event_transaction", "event_consumption", "event_general", "event_drift"]

    /// The unique indexes that count, in the words of `keys`; in the SQL of a statement.
    ///
    /// A session with `quote_all_identifiers` puts every name in quotes.
    static let present = """
        SELECT relation.relname || ' (' || (
                SELECT string_agg(attname, ', ' ORDER BY place.ordinality)
                FROM unnest(indkey) WITH ORDINALITY AS place (attnum, ordinality)
                JOIN pg_attribute ON attrelid = indrelid AND pg_attribute.attnum = place.attnum
            ) || ')' || coalesce(' WHERE ' || replace(pg_get_expr(indpred, indrelid), '"', ''), '') AS key
        FROM pg_index JOIN pg_class AS relation ON relation.oid = indrelid
        WHERE indisunique AND indimmediate AND indisvalid
            AND relation.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('event'))
        """

    /// Those that are missing or do not count, each in words with what to do.
    static let missing = PostgresStatement(
        """
        SELECT 'no valid unique index on table ' || expected.key || ' (`CREATE UNIQUE INDEX ON ' || expected.key || '`)'
        FROM unnest($1::text[]) AS expected (key)
        WHERE NOT EXISTS (SELECT FROM (\(present)) AS present WHERE present.key = expected.key)
        UNION ALL
        SELECT 'no valid index ' || expected.name || ' on table event (make it as schema/ does)'
        FROM unnest($2::text[]) AS expected (name)
        WHERE NOT EXISTS (
            SELECT FROM pg_index JOIN pg_class AS index ON index.oid = indexrelid
            WHERE indrelid = to_regclass('event') AND indisvalid AND index.relname = expected.name)
        ORDER BY 1
        """, [.textArray(keys), .textArray(ofTheLog)])
}
