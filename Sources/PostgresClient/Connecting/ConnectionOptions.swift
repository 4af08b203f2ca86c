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
    /// How much longer than a statement may run the server may be silent before its connection is given up.
    package var graceMilliseconds: Int
    /// How many prepared statements a session keeps.
    package var statementCacheLimit: Int
    /// What bounds all waiting together once the program stops; `nil`: nothing does.
    package var lastWait: LastWait?

    /// How long the server may be silent; `nil` where statements may run without end.
    package var silence: Duration? {
        guard statementTimeoutMilliseconds > 0 else { return nil }
        return .milliseconds(statementTimeoutMilliseconds + max(0, graceMilliseconds))
    }

    /// How long the server may be silent, from now on.
    var patience: Duration? { lastWait.map { $0.shortened(silence) } ?? silence }

    /// How long connecting may take from now on, in seconds, of which libpq takes 2 for the least.
    var connectPatienceSeconds: Int {
        let limit = Duration.seconds(connectTimeoutSeconds)
        return max(2, Int((lastWait?.shortened(limit) ?? limit) / .seconds(1)))
    }

    package init(
        applicationName: String = "rightful",
        connectTimeoutSeconds: Int = 10,
        statementTimeoutMilliseconds: Int = 30_000,
        lockTimeoutMilliseconds: Int = 5_000,
        idleInTransactionTimeoutMilliseconds: Int = 10_000,
        graceMilliseconds: Int = 3_000,
        statementCacheLimit: Int = 256,
        lastWait: LastWait? = nil
    ) {
        self.applicationName = applicationName
        self.connectTimeoutSeconds = connectTimeoutSeconds
        self.statementTimeoutMilliseconds = statementTimeoutMilliseconds
        self.lockTimeoutMilliseconds = lockTimeoutMilliseconds
        self.idleInTransactionTimeoutMilliseconds = idleInTransactionTimeoutMilliseconds
        self.graceMilliseconds = graceMilliseconds
        self.statementCacheLimit = statementCacheLimit
        self.lastWait = lastWait
    }

    /// Where names without a schema are looked up, behind `pg_catalog`; the value of `search_path`.
    ///
    /// Left to itself PostgreSQL would look first among a session's temporary tables, and before `public` in a schema of the
    /// role's name, which others may have made.
    package static let searchPath = "public, pg_temp"

    /// What the sessions of a role that serves begin with, by name, whatever they set for themselves.
    ///
    /// A pooler in transaction mode gives a statement to a session in which nothing was set. There must be nothing that stands
    /// for a table of the ledger's, and nobody who stops half-way may hold the head for ever.
    package static let servingSettings: [(name: String, value: String)] = {
        let usual = ConnectionOptions()
        return [
            ("search_path", searchPath), ("statement_timeout", String(usual.statementTimeoutMilliseconds)),
            ("lock_timeout", String(usual.lockTimeoutMilliseconds)),
            ("idle_in_transaction_session_timeout", String(usual.idleInTransactionTimeoutMilliseconds)),
        ]
    }()

    /// What those of a role begin with that only owns the tables: what an owner does may take as long as it needs.
    package static let owningSettings = servingSettings.filter { $0.name == "search_path" }

    /// The settings of every session, as SQL.
    ///
    /// Nearly every statement is a handful of searches by index, whatever the values searched for and however large the
    /// tables are. So it is planned once, and held to such a plan: before a table's first ANALYZE the planner takes the
    /// ledger's number, which leads every index, for a choice of few rows, and would read whole tables into hash joins.
    ///
    /// A commit that has not reached the disk is never acknowledged: where the server has `synchronous_commit` off, it is
    /// `local` here; whatever else the server has waits for the disk, or for more.
    ///
    /// A client whose machine vanished, or whose network did, is noticed by the server as soon as the server is by a client:
    /// within a minute. On a Unix socket these settings do nothing, and a server that does not know them goes without.
    ///
    /// Whatever the database's default, every transaction begins as one that a standby has, too; where more is needed it says so.
    /// None has a limit as a whole (`transaction_timeout` of PostgreSQL 17): one that is shorter than `lock_timeout` would end the
    /// session of whoever waits, and hide for whom.
    ///
    /// Sent after connecting rather than as start-up `options`: the URL may carry its own, and poolers refuse them. Where
    /// a pooler loses these settings, statements are planned with statistics alone: slower at first, never wrong. What must
    /// not be lost `migrate` gives to the roles as well (`servingSettings`); and where `synchronous_commit` would be, `serve`
    /// and `status` say so.
    var sessionScript: String {
        """
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        SET default_transaction_isolation = 'read committed';
        SET search_path = \(Self.searchPath);
        SELECT set_config('synchronous_commit', 'local', false) WHERE current_setting('synchronous_commit') = 'off';
        SELECT set_config(name, value, false)
        FROM (VALUES ('tcp_keepalives_idle', '30'), ('tcp_keepalives_interval', '10'), ('tcp_keepalives_count', '3'),
            ('tcp_user_timeout', '60000'), ('transaction_timeout', '0')) AS setting (name, value)
        WHERE current_setting(name, true) IS NOT NULL;
        SET statement_timeout = \(max(0, statementTimeoutMilliseconds));
        SET lock_timeout = \(max(0, lockTimeoutMilliseconds));
        SET idle_in_transaction_session_timeout = \(max(0, idleInTransactionTimeoutMilliseconds));
        SET timezone = 'UTC';
        SET plan_cache_mode = force_generic_plan;
        SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
        SET jit = off;
        """
    }
}
