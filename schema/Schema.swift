/// One step of the database's definition: a file of schema/, byte for byte.
package struct Migration: Sendable {
    package let version: Int
    package let name: String
    package let sql: [UInt8]

    private init(_ name: String, _ sql: [UInt8]) {
        version = Int(name.prefix(4)) ?? 0
        self.name = name
        self.sql = sql
    }

    /// All steps, in order.
    package static let all: [Migration] = [
        Migration("0001_schema_migration", PackageResources._001_schema_migration_sql),
        Migration("0002_ledger_head", PackageResources._002_ledger_head_sql),
        Migration("0003_event", PackageResources._003_event_sql),
        Migration("0004_event_name", PackageResources._004_event_name_sql),
        Migration("0005_append_only", PackageResources._005_append_only_sql),
        Migration("0006_evidence", PackageResources._006_evidence_sql),
        Migration("0007_identity", PackageResources._007_identity_sql),
        Migration("0008_original_view", PackageResources._008_original_view_sql),
        Migration("0009_projection", PackageResources._009_projection_sql),
        Migration("0010_tree_node", PackageResources._010_tree_node_sql),
        Migration("0011_access", PackageResources._011_access_sql),
        Migration("0012_store_api", PackageResources._012_store_api_sql),
        Migration("0013_drift", PackageResources._013_drift_sql),
        Migration("0014_answer_watch", PackageResources._014_answer_watch_sql),
        Migration("0015_webhook", PackageResources._015_webhook_sql),
        Migration("0016_grant_serving_role", PackageResources._016_grant_serving_role_sql),
    ]
}
