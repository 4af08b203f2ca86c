import EmbeddedPostgres
import EntitlementAPI
import EntitlementCore
import Ledger
import PostgresClient
import Service

/// What `rightful status --json` prints.
struct StatusDocument: Encodable {
    struct SchemaStanding: Encodable {
        /// `current`, `behind`, `ahead`, `changed` or `unreleased`.
        let standing: String
        /// What to do about it.
        @Nullable var refusal: String?
    }

    struct Database: Encodable {
        /// `embedded` or `external`.
        let kind: String
        let version: String
        /// The user of this machine that the embedded one runs as.
        @Nullable var user: String?
        /// `unix_socket`, `loopback`, or else the address on a network.
        let reachedBy: String
        /// What encrypts this command's connection, such as `TLSv1.3`.
        @Nullable var encryption: String?
        /// Whether somebody on the way could read and change what is sent.
        let isExposed: Bool
        /// Whether nothing can be recorded: a standby, or `default_transaction_read_only`.
        let isReadOnly: Bool
        /// Which of the two, and what to do about it.
        @Nullable var readOnlyReason: String?
        /// Settings by which a crash may lose what was acknowledged.
        let notDurable: [String]
        /// What has kept it from cleaning up for more than an hour, and what to do about it.
        @Nullable var cleaningHeldBy: String?
        /// That it has few numbers left for transactions, and what to do about it.
        @Nullable var numberShortage: String?
        /// That an embedded one has long failed to write a checkpoint.
        @Nullable var overdueCheckpoint: String?
    }

    struct Clock: Encodable {
        /// By how much this machine's clock is ahead of the database's (behind, where negative); 0 up to 2 s.
        let aheadSeconds: Double
    }

    struct Log: Encodable {
        let position: Int64
        let recordedAt: String
        let hash: String
        let foldVersion: Int
    }

    struct Projection: Encodable {
        let name: String
        let version: Int64
        let checkpoint: Int64
        /// Positions that it is behind the log.
        let lag: Int64
        /// Whether services with this configuration bring it on.
        let isFollowed: Bool
    }

    struct Rebuild: Codable, Hashable {
        let phase: String
        let isRunning: Bool
        let foldVersion: Int64
        let startedAt: String
        let startPosition: Int64
        let events: Int64
        let originals: Int64
        let heartbeatAgeSeconds: Double
    }

    struct Roles: Encodable {
        let serving: String
        let owner: String
        let canAlterLog: Bool
        @Nullable var reason: String?
        /// What the serving role must be allowed, and is not.
        let lacks: [String]
        /// What should keep roles from changing the log, and does not.
        let guardsOff: [String]
    }

    struct Sizes: Encodable {
        let log: Int64
        let logIndexes: Int64
        let evidence: Int64
        let views: Int64
        let database: Int64
    }

    struct Counts: Encodable {
        let events: Int64
        let originals: Int64
        let identities: Int64
        let keys: Int64
        /// Which of the above are estimates.
        let estimated: [String]
    }

    struct Attention: Encodable {
        /// The position up to which it is counted.
        let countedTo: Int64
        let remarks: [RemarksDocument.Seen]
        let unmappedProducts: [RemarksDocument.Seen]
        let productsWithoutDuration: [RemarksDocument.Seen]
    }

    /// Work behind running services that fails.
    struct Failure: Encodable {
        let work: String
        let host: String
        let since: String
        let lastAt: String
        let reason: String
    }

    let object = "status"
    let schema: SchemaStanding
    /// What follows is missing while the schema is not this program's.
    var database: Database?
    /// The users, of whatever machine, as which services run that are connected now.
    var servingAs: [String]?
    var clock: Clock?
    var ledger: Log?
    var projections: [Projection]?
    @Nullable var rebuild: Rebuild?
    var failures: [Failure]?
    var sweeps: [Sweep]?
    /// Those alone that are not at their end.
    var imports: [Import]?
    var streams: [Stream]?
    /// Apps of which the log has events, as far as is known without a look through it, and which `apps` does not name.
    var unconfiguredApps: [String]?
    var drift: [Drift]?
    var webhooks: Webhooks?
    var roles: Roles?
    var sizes: Sizes?
    var counts: Counts?
    var attention: Attention?
}

extension StatusDocument {
    init(_ standing: Migrator.Standing) {
        let name =
            switch standing {
            case .current: "current"
            case .empty, .behind: "behind"
            case .ahead: "ahead"
            case .changed: "changed"
            case .unreleased: "unreleased"
            }
        schema = SchemaStanding(standing: name, refusal: standing.refusal)
        rebuild = nil
    }

    /// Everything, when the schema is current.
    init(
        _ status: LedgerStatus, _ statistics: LedgerStatistics, _ seen: SeenSummary, failures: [WorkFailure],
        sweeps: [Sweep], imports: [Import], streams: [Stream], unconfiguredApps: [String], drift: [Drift],
        webhooks: Webhooks, cluster: EmbeddedCluster?,
        transport: Transport, readingOnly: ReadingOnly?, notDurable: [String], cleaningHeldBy: String?,
        numberShortage: String?, overdueCheckpoint: String?,
        isUnfollowed: (String) -> Bool, servingAs: [String], weakness: String?,
        lacks: [String], guardsOff: [String], clock: LedgerClock
    ) {
        self.init(.current)
        let reachedBy =
            switch transport.path {
            case .socket: "unix_socket"
            case .loopback: "loopback"
            case .network(let address): address
            }
        database = Database(
            kind: cluster == nil ? "external" : "embedded", version: statistics.serverVersion,
            user: cluster?.serverAccount, reachedBy: reachedBy, encryption: transport.encryption,
            isExposed: transport.isExposed, isReadOnly: readingOnly != nil, readOnlyReason: readingOnly?.notice,
            notDurable: notDurable, cleaningHeldBy: cleaningHeldBy, numberShortage: numberShortage,
            overdueCheckpoint: overdueCheckpoint)
        self.servingAs = servingAs
        self.clock = Clock(aheadSeconds: Double(clock.skewMilliseconds) / 1000)
        ledger = Log(
            position: status.position, recordedAt: status.recordedAt.description, hash: status.hash.hex,
            foldVersion: OriginalState.foldVersion)
        projections = status.projections.map {
            Projection(
                name: $0.name, version: $0.version, checkpoint: $0.checkpoint,
                lag: max(0, status.position - $0.checkpoint), isFollowed: !isUnfollowed($0.name))
        }
        rebuild = statistics.rebuild.map {
            Rebuild(
                phase: $0.phase.rawValue, isRunning: $0.isRunning, foldVersion: $0.foldVersion,
                startedAt: $0.startedAt.description, startPosition: $0.startPosition, events: $0.events,
                originals: $0.originals, heartbeatAgeSeconds: ($0.silence / .seconds(1)).rounded(to: 3))
        }
        self.failures = failures.map {
            Failure(
                work: $0.work, host: $0.host, since: $0.since.description, lastAt: $0.lastAt.description,
                reason: $0.reason)
        }
        self.sweeps = sweeps
        self.imports = imports
        self.streams = streams
        self.unconfiguredApps = unconfiguredApps
        self.drift = drift
        self.webhooks = webhooks
        roles = Roles(
            serving: statistics.roles.serving, owner: statistics.roles.owner, canAlterLog: weakness != nil,
            reason: weakness, lacks: lacks, guardsOff: guardsOff)
        sizes = Sizes(
            log: statistics.sizes.log, logIndexes: statistics.sizes.logIndexes, evidence: statistics.sizes.evidence,
            views: statistics.sizes.views, database: statistics.sizes.database)
        let counted = [("originals", statistics.originals), ("identities", statistics.identities)]
        counts = Counts(
            events: status.position, originals: statistics.originals.rows, identities: statistics.identities.rows,
            keys: statistics.keys, estimated: counted.filter(\.1.isEstimate).map(\.0))
        attention = Attention(
            countedTo: seen.checkpoint, remarks: seen.remarks.map(RemarksDocument.Seen.init),
            unmappedProducts: seen.unmappedProducts.map(RemarksDocument.Seen.init),
            productsWithoutDuration: seen.productsWithoutDuration.map(RemarksDocument.Seen.init))
    }
}
