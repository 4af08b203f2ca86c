import EntitlementAPI
import Ledger

extension StatusDocument {
    /// For people: a line for each thing, its name in front.
    var table: String {
        var rows: [(String, String)] = [("schema", schema.refusal ?? "current")]
        if let database {
            let user = database.user.map { ", as the user \($0)" } ?? ""
            rows.append(("database", "\(database.kind), PostgreSQL \(database.version)\(user)"))
            if let reason = database.readOnlyReason { rows.append(("only reads", reason)) }
            if database.isExposed {
                rows.append(("not encrypted", "the connection to the database at \(database.reachedBy): \(Self.cure)"))
            }
        }
        rows += (database?.notDurable ?? []).map {
            ("not durable", "\($0): a crash of the database may lose what was acknowledged")
        }
        if let obstacle = database?.cleaningHeldBy { rows.append(("not cleaned up", obstacle)) }
        if let shortage = database?.numberShortage { rows.append(("running out", shortage)) }
        if let overdue = database?.overdueCheckpoint { rows.append(("no checkpoint", overdue)) }
        if let servingAs {
            let users = "runs as the user \(servingAs.joined(separator: ", and as "))"
            rows.append(("service", servingAs.isEmpty ? "none is connected" : users))
        }
        if let clock, clock.aheadSeconds != 0 {
            let direction = clock.aheadSeconds > 0 ? "ahead of" : "behind"
            rows.append(
                (
                    "clock",
                    "this machine's is \(abs(clock.aheadSeconds)) s \(direction) the database's: set the wrong one"
                ))
        }
        if let roles {
            let weakness = roles.reason.map { "could change the log: \($0)" } ?? "can only read and append to the log"
            rows.append(("serving role", "\(roles.serving): \(weakness) (owner: \(roles.owner))"))
            rows += roles.lacks.map { ("not granted", "\($0) (`rightful migrate` sees to it)") }
            rows += roles.guardsOff.map { ("guard off", $0) }
        }
        if let ledger {
            let head = "position \(ledger.position), recorded \(ledger.recordedAt)"
            rows.append(("head", ledger.position == 0 ? "nothing is recorded yet" : head))
            rows.append(("hash", ledger.hash))
        }
        for projection in projections ?? [] {
            let version =
                projection.name == "originals" && projection.version != Int64(ledger?.foldVersion ?? 0)
                ? ", not this program's" : ""
            let lag =
                isBeyondLog(projection)
                ? "beyond the end of the log: it was made from another one"
                : !projection.isFollowed
                    ? "left there: `stripe` is not configured"
                    : projection.lag == 0 ? "up to date" : "\(projection.lag) behind"
            rows.append(
                (
                    "projection \(projection.name)",
                    "at \(projection.checkpoint), \(lag) (version \(projection.version)\(version))"
                ))
        }
        // The others are begun anew in place, which their projections above show.
        if ledger != nil { rows.append(("rebuild of originals", rebuild.map(Self.line) ?? "never")) }
        rows += (failures ?? []).map {
            ("failing", "\($0.work) on \($0.host) since \($0.since), tried last \($0.lastAt): \($0.reason)")
        }
        rows += streamRows + importRows + driftRows + webhookRows
        if let counts {
            func about(_ name: String, _ count: Int64) -> String {
                "\(counts.estimated.contains(name) ? "about " : "")\(count) \(name)"
            }
            rows.append(
                (
                    "counts",
                    [
                        about("events", counts.events), about("originals", counts.originals),
                        about("identities", counts.identities), about("keys", counts.keys),
                    ].joined(separator: ", ")
                ))
        }
        if let sizes {
            rows.append(
                (
                    "sizes",
                    "log \(Self.size(sizes.log)), its indexes \(Self.size(sizes.logIndexes)), evidence "
                        + "\(Self.size(sizes.evidence)), views \(Self.size(sizes.views)), whole database "
                        + Self.size(sizes.database)
                ))
        }
        if let attention { rows += concerns(attention, head: ledger?.position ?? 0) }
        return TextTable(rows.map { [$0.0, $0.1] }).text
    }

    /// What to do about a connection that somebody on the way could read and change.
    static let cure = "whoever is on the way can read and change the ledger; ask for TLS with sslmode=verify-full"

    private static func line(_ rebuild: Rebuild) -> String {
        let age = "last heard from \(rebuild.heartbeatAgeSeconds) s ago"
        if rebuild.phase == RebuildPhase.done.rawValue { return "the last one, of \(rebuild.startedAt), is done" }
        let progress = "\(rebuild.phase), \(rebuild.events) events and \(rebuild.originals) originals into it, \(age)"
        return rebuild.isRunning
            ? "under way since \(rebuild.startedAt): \(progress)"
            : "stopped unfinished: \(progress); `rightful rebuild` goes on with it"
    }

    private func concerns(_ attention: Attention, head: Int64) -> [(String, String)] {
        let behind = attention.countedTo < head ? " up to position \(attention.countedTo)" : ""
        let remarks = attention.remarks.map { "\($0.name): \(Self.count($0))\(behind)" }
        let products = attention.unmappedProducts.map {
            "\(Self.product($0)) is not in the catalog: \(Self.count($0))\(behind)"
        }
        let endless = attention.productsWithoutDuration.map {
            "product \($0.name) is sold as non-renewing and gives nothing, for it has no `duration` in the catalog: "
                + "\(Self.count($0))\(behind)"
        }
        let concerns =
            standing + remarks + products + endless
            + (failures ?? []).map { "\($0.work) fails on \($0.host)" } + streamConcerns
        return (concerns.isEmpty ? ["nothing\(behind)"] : concerns).map { ("to look at", $0) }
    }

    private func isBeyondLog(_ projection: Projection) -> Bool {
        ledger.map { projection.checkpoint > $0.position } ?? false
    }

    /// What a line further up says of the database, its roles, the clock and projections, and somebody should mend.
    private var standing: [String] {
        var found: [String] = []
        if let database {
            if database.isReadOnly { found.append("the database only reads") }
            if database.isExposed { found.append("the connection to the database is not encrypted") }
            if !database.notDurable.isEmpty { found.append("a crash of the database may lose what was acknowledged") }
            if database.cleaningHeldBy != nil { found.append("the database is kept from cleaning up") }
            if database.numberShortage != nil { found.append("the database runs out of numbers of transactions") }
            if database.overdueCheckpoint != nil { found.append("the database writes no checkpoint") }
        }
        if let clock, clock.aheadSeconds != 0 { found.append("a clock is wrong") }
        if let roles {
            if roles.reason != nil { found.append("the serving role could change the log") }
            if !roles.lacks.isEmpty { found.append("the serving role lacks privileges") }
            if !roles.guardsOff.isEmpty { found.append("the log's guards are off") }
        }
        found += (projections ?? []).filter(isBeyondLog).map {
            "projection \($0.name) is beyond the end of the log: `rightful serve` begins it anew, or goes on from the end"
        }
        if let lost = webhooks?.lost, lost > 0 {
            found.append(
                "webhooks: nothing can be sent to \(lost) endpoint\(lost == 1 ? "" : "s"), of which the database has lost the row, "
                    + "the address or the secret: delete them, and make them anew")
        }
        return found
    }

    /// What the catalog would call it.
    private static func product(_ seen: RemarksDocument.Seen) -> String {
        guard let stripe = seen.stripe else { return "product \(seen.name)" }
        let names = [("price", stripe.price), ("product", stripe.product)].compactMap { name, id in
            id.map { "stripe.\(name) \($0)" }
        }
        return names.joined(separator: ", ")
    }

    private static func count(_ seen: RemarksDocument.Seen) -> String {
        "\(seen.events) event\(seen.events == 1 ? "" : "s"), the last at position \(seen.lastPosition)"
    }

    private static func size(_ bytes: Int64) -> String {
        var value = Double(bytes)
        for unit in ["B", "kB", "MB", "GB"] {
            if value < 1000 { return "\(unit == "B" ? "\(bytes)" : "\(value.rounded(to: 1))") \(unit)" }
            value /= 1000
        }
        return "\(value.rounded(to: 1)) TB"
    }
}
