/// How a connection is made and what bounds its work.
///
/// Zero switches a server-side limit off. The application name and the connect timeout are defaults: the URL may say
/// otherwise.
package struct ConnectionOptions: Sendable {
    /// Shown in `pg_stat_activity`.
    package var applicationName: String
    package var connectTimeoutSeconds: Int
    /// How long one statement may run.
    package var statementTimeoutMilliseconds: Int
    /// How long one statement may wait for a lock.
    package var lockTimeoutMilliseconds: Int
    /// How long a transaction may sit idle before the server ends its session, so that a stalled instance cannot hold
    /// a ledger's head row.
    package var idleInTransactionTimeoutMilliseconds: Int
    /// How many prepared statements a session keeps.
    package var statementCacheLimit: Int

    package init(
        applicationName: String = "rightful",
        connectTimeoutSeconds: Int = 10,
        statementTimeoutMilliseconds: Int = 30_000,
        lockTimeoutMilliseconds: Int = 5_000,
        idleInTransactionTimeoutMilliseconds: Int = 10_000,
        statementCacheLimit: Int = 256
    ) {
        self.applicationName = applicationName
        self.connectTimeoutSeconds = connectTimeoutSeconds
        self.statementTimeoutMilliseconds = statementTimeoutMilliseconds
        self.lockTimeoutMilliseconds = lockTimeoutMilliseconds
        self.idleInTransactionTimeoutMilliseconds = idleInTransactionTimeoutMilliseconds
        self.statementCacheLimit = statementCacheLimit
    }

    /// Every statement is a search by index whose plan does not depend on the values searched for, so it is planned once:
    /// planning a statement over a partitioned table takes longer than running it.
    ///
    /// Sent after connecting rather than as start-up `options`: the URL may carry its own, and poolers refuse them.
    var sessionScript: String {
        """
        SET statement_timeout = \(max(0, statementTimeoutMilliseconds));
        SET lock_timeout = \(max(0, lockTimeoutMilliseconds));
        SET idle_in_transaction_session_timeout = \(max(0, idleInTransactionTimeoutMilliseconds));
        SET timezone = 'UTC';
        SET plan_cache_mode = force_generic_plan;
        """
    }
}
