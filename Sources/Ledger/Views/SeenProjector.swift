package import EntitlementCore
package import PostgresClient

/// Something the log speaks of, and how often.
package struct SeenName: Sendable, Equatable {
    package let name: String
    /// What Stripe calls a product that was sold on the web; `nil` of whatever else there is.
    package var stripe: WebProduct?
    package let events: Int64
    package let firstPosition: Int64
    package let lastPosition: Int64
}

/// What was counted, and up to which position.
package struct SeenSummary: Sendable, Equatable {
    package let checkpoint: Int64
    /// Kinds of things for a person to look at, such as `unknown_field`.
    package let remarks: [SeenName]
    /// Products that were sold and that a catalog does not know.
    package let unmappedProducts: [SeenName]
    /// Products that were sold as non-renewing and of which a catalog that knows them does not say how long they run.
    package let productsWithoutDuration: [SeenName]
}

/// Counts the kinds of remarks and the products of the log, behind it and apart from the appends.
package struct SeenProjector: Sendable {
    static let row = ProjectionRow(name: "seen", version: 3)

    private let follower: LogFollower

    /// - Parameter pageEvents: how many positions one transaction goes through.
    package init(pool: PostgresPool, pageEvents: Int64 = 10_000) {
        follower = LogFollower(
            Self.row, pool, doing: "counting what the log speaks of", pageEvents: pageEvents,
            former: .cleared(by: Self.clear))
    }

    /// Counts on from the checkpoint to the head of the log.
    ///
    /// - Parameters:
    ///   - events: how many it counts at the most; it ends with a page.
    ///   - patience: how long it waits for another process that is at it.
    /// - Returns: whether the head was reached.
    @discardableResult
    package func catchUp(events: Int64 = .max, patience: Duration = .zero) async throws -> Bool {
        try await follower.catchUp(events: events, patience: patience) { connection, stretch, _ in
            // Counts add up: where somebody has deleted the row alone, what it spoke of must not be counted twice.
            if stretch.start == 0 { try Self.clear(connection) }
            try connection.walkByIndex()
            try Self.add(Self.counts(from: stretch.start, to: stretch.end, on: connection), on: connection)
            return stretch.end
        }.isAtHead
    }

    /// Begins anew where nothing is kept of a log that speaks of purchases, such as after somebody deleted it.
    package func restore() async throws { try await follower.restore(whereEmpty: "seen") }

    /// Forgets what was counted; the next `catchUp` begins at the first event.
    package func reset() async throws { try await follower.reset() }

    /// What was counted, the products left out of which a catalog says all that is needed; of each list the 1000 most
    /// frequent.
    package func summary(besides catalog: Catalog) async throws -> SeenSummary {
        try await follower.run { connection in
            let results = try connection.pipeline([
                PostgresStatement(
                    "SELECT checkpoint FROM projection WHERE ledger_id = $1 AND name = $2",
                    [.int(ledgerID), .text(Self.row.name)]),
                PostgresStatement(
                    """
                    SELECT kind, name, events, first_position, last_position
                    FROM (
                        SELECT *, row_number() OVER (
                            PARTITION BY CASE kind WHEN 'web_product' THEN 'product' ELSE kind END
                            ORDER BY events DESC, name) AS rank
                        FROM seen
                        WHERE ledger_id = $1
                            AND NOT (kind = 'product' AND name IN (SELECT unnest($2::text[])))
                            AND NOT (kind = 'web_product'
                                AND (split_part(name, chr(10), 1) IN (SELECT unnest($3::text[]))
                                    OR split_part(name, chr(10), 2) IN (SELECT unnest($4::text[]))))
                            AND NOT (kind = 'non_renewing' AND name NOT IN (SELECT unnest($5::text[])))
                    ) AS ranked
                    WHERE rank <= 1000
                    ORDER BY events DESC, name
                    """,
                    [
                        .int(ledgerID), .textArray(catalog.products.map(\.productID)),
                        .textArray(catalog.stripePrices), .textArray(catalog.stripeProducts),
                        .textArray(
                            catalog.products.filter { !$0.entitlements.isEmpty && $0.duration == nil }.map(\.productID)),
                    ]),
            ])
            var listed: [Kind: [SeenName]] = [:]
            for row in results[1].rows {
                guard let kind = Kind(rawValue: try row.text(0)) else { continue }
                let stripe = kind == .webProduct ? Self.webProduct(named: try row.text(1)) : nil
                let seen = SeenName(
                    name: try stripe.flatMap { $0.product ?? $0.price } ?? row.text(1), stripe: stripe,
                    events: try row.int(2), firstPosition: try row.int(3), lastPosition: try row.int(4))
                listed[kind == .webProduct ? .product : kind, default: []].append(seen)
            }
            return SeenSummary(
                checkpoint: try results[0].first?.int(0) ?? 0, remarks: listed[.remark] ?? [],
                unmappedProducts: listed[.product] ?? [], productsWithoutDuration: listed[.nonRenewing] ?? [])
        }
    }

    enum Kind: String {
        case remark
        case product
        /// Named by what Stripe calls its price and its product, a line each; an empty one where it calls it nothing.
        case webProduct = "web_product"
        /// A product once more, where a store says that it was sold as a non-renewing subscription.
        case nonRenewing = "non_renewing"
    }

    private static func name(of sold: WebProduct) -> String { "\(sold.price ?? "")\n\(sold.product ?? "")" }

    private static func webProduct(named name: String) -> WebProduct {
        let parts = name.split(separator: "\n", omittingEmptySubsequences: false).map { $0.isEmpty ? nil : String($0) }
        return WebProduct(price: parts.first ?? nil, product: parts.count > 1 ? parts[1] : nil)
    }

    struct Count: Hashable {
        var events: Int64 = 0
        var first: Int64
        var last: Int64

        mutating func add(_ events: Int64, first: Int64, last: Int64) {
            self.events += events
            self.first = min(self.first, first)
            self.last = max(self.last, last)
        }
    }

    struct Subject: Hashable {
        let kind: Kind
        let name: String
    }

    /// Counts a stretch of the log.
    ///
    /// Nearly all events state one transaction, whose product is a column of the log, and have no remarks: these the
    /// database counts, and of each product only the first event's facts are read, which say of what kind it is. The
    /// facts of signed statements end in the list of their remarks, so an empty list is four zero bytes; no remark ends in
    /// such.
    static func counts(
        from start: Int64, to end: Int64, on connection: isolated PostgresConnection
    ) throws -> [Subject: Count] {
        let groups = try connection.query(
            """
            SELECT product, events, first, last,
                (SELECT facts FROM event WHERE ledger_id = $1 AND position = counted.first)
            FROM (
                SELECT product, count(*) AS events, min(position) AS first, max(position) AS last
                FROM (
                    SELECT position, CASE WHEN is_plain THEN product_id END AS product,
                        CASE WHEN NOT is_plain THEN position END AS single
                    FROM (
                        SELECT position, product_id, product_id IS NOT NULL
                            AND substr(facts, octet_length(facts) - 3) = decode('00000000', 'hex') AS is_plain
                        FROM event
                        WHERE ledger_id = $1 AND position > $2 AND position <= $3
                            AND NOT (product_id IS NULL AND type = ANY ($4))
                        OFFSET 0
                    ) AS looked
                ) AS told
                GROUP BY product, single
            ) AS counted
            """,
            [.int(ledgerID), .int(start), .int(end), .textArray(LedgerFact.eventTypes.sorted())]
        ).rows
        var counts: [Subject: Count] = [:]
        for row in groups {
            let (events, first, last) = (try row.int(1), try row.int(2), try row.int(3))
            for subject in try subjects(product: row.optionalText(0), facts: row.optionalBytes(4)) {
                counts[subject, default: Count(first: first, last: last)].add(events, first: first, last: last)
            }
        }
        return counts
    }

    /// What an event speaks of: its product, and what its facts say.
    private static func subjects(product: String?, facts: [UInt8]?) -> Set<Subject> {
        var products = product.map { [Subject(kind: .product, name: $0)] } ?? []
        // What does not decode is for `verify` to name, and no reason to stop counting.
        guard let facts, let fact = try? FactCodec.decode(facts) else { return Set(products) }
        for transaction in fact.transactions {
            products.append(Subject(kind: .product, name: transaction.productID))
            if transaction.kind == .known(.nonRenewing) {
                products.append(Subject(kind: .nonRenewing, name: transaction.productID))
            }
        }
        if case .web(let web) = fact {
            products += web.sold.map { Subject(kind: .webProduct, name: name(of: $0)) }
            if let named = web.payment?.catalogProductID { products.append(Subject(kind: .product, name: named)) }
        }
        let remarks = fact.remarks.map { Subject(kind: .remark, name: String($0.prefix { $0 != ":" })) }
        return Set(products + remarks)
    }

    private static func add(_ counts: [Subject: Count], on connection: isolated PostgresConnection) throws {
        guard !counts.isEmpty else { return }
        let counts = counts.sorted { ($0.key.kind.rawValue, $0.key.name) < ($1.key.kind.rawValue, $1.key.name) }
        try connection.query(
            """
            INSERT INTO seen (ledger_id, kind, name, events, first_position, last_position)
            SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
            ON CONFLICT (ledger_id, kind, name) DO UPDATE SET events = seen.events + excluded.events,
                last_position = excluded.last_position
            """,
            [
                .int4(Int32(ledgerID)), .textArray(counts.map(\.key.kind.rawValue)), .textArray(counts.map(\.key.name)),
                .intArray(counts.map(\.value.events)), .intArray(counts.map(\.value.first)),
                .intArray(counts.map(\.value.last)),
            ])
    }

    private static func clear(_ connection: isolated PostgresConnection) throws {
        try connection.query("DELETE FROM seen WHERE ledger_id = $1", [.int(ledgerID)])
    }
}
