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
        Migration("0004_event_original_index", PackageResources._004_event_original_index_sql),
        Migration("0005_event_transaction_index", PackageResources._005_event_transaction_index_sql),
        Migration("0006_event_identity_index", PackageResources._006_event_identity_index_sql),
        Migration("0007_event_other_identity_index", PackageResources._007_event_other_identity_index_sql),
        Migration("0008_event_catalog_index", PackageResources._008_event_catalog_index_sql),
        Migration("0009_event_recorded_index", PackageResources._009_event_recorded_index_sql),
        Migration("0010_refuse_change", PackageResources._010_refuse_change_sql),
        Migration("0011_event_append_only", PackageResources._011_event_append_only_sql),
        Migration("0012_evidence", PackageResources._012_evidence_sql),
        Migration("0013_jws_header", PackageResources._013_jws_header_sql),
        Migration("0014_event_key", PackageResources._014_event_key_sql),
        Migration("0015_identity", PackageResources._015_identity_sql),
        Migration("0016_original_view", PackageResources._016_original_view_sql),
        Migration("0017_projection", PackageResources._017_projection_sql),
        Migration("0018_api_key", PackageResources._018_api_key_sql),
        Migration("0019_ensure_partitions", PackageResources._019_ensure_partitions_sql),
        Migration("0020_command_key", PackageResources._020_command_key_sql),
        Migration("0021_grant_serving_role", PackageResources._021_grant_serving_role_sql),
        Migration("0022_original_view_second", PackageResources._022_original_view_second_sql),
        Migration("0023_rebuild", PackageResources._023_rebuild_sql),
        Migration("0024_seen", PackageResources._024_seen_sql),
        Migration("0025_event_nameless_index", PackageResources._025_event_nameless_index_sql),
        Migration("0026_server_secret", PackageResources._026_server_secret_sql),
        Migration("0027_event_word_index", PackageResources._027_event_word_index_sql),
        Migration("0028_event_link_index", PackageResources._028_event_link_index_sql),
        Migration("0029_event_ownership_index", PackageResources._029_event_ownership_index_sql),
        Migration("0030_event_drift_index", PackageResources._030_event_drift_index_sql),
    ]
}
