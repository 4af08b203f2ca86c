import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Ledger
import StripeAPI
import StripePayloads

/// Asks Stripe about one purchase, and records what the ledger does not know.
///
/// A subscription is read with its invoices and their lines, and with what of its customer's payments was given back or is
/// disputed, and where these name nobody with its session; a one-time payment with its session. Each object is a reading of
/// its own, and an event only if it says something new.
package struct StripeCheck: Sendable {
    /// What Stripe said, and what came of it.
    struct Finding: Sendable {
        /// The subscription or payment that was asked about; `nil` where Stripe knows none by that id.
        var originalTransactionID: String?
        /// All that was said of it, in the ledger's terms.
        var facts: [WebFact] = []
        /// The events that were appended.
        var recorded: [(originalTransactionID: String, position: Int64)] = []
        /// How many objects cannot be read, and why the last of them cannot.
        var refused = 0
        var refusal: String?
        /// Refunds and disputes that were read.
        fileprivate var seen: Set<String> = []
    }

    /// More than this of one customer's payments that were given back or disputed are not looked at.
    private static let mostTakenBack = 200

    private let ingestion: StripeIngestion

    package init(_ ingestion: StripeIngestion) { self.ingestion = ingestion }

    /// Whether Stripe can be asked about an environment.
    func asks(about environment: StoreEnvironment) -> Bool { ingestion.client(environment) != nil }

    /// Asks until Stripe has said everything, and records as it goes.
    ///
    /// - Parameters:
    ///   - id: a subscription, payment intent or session, or what belongs to one, such as an invoice.
    ///   - known: what the ledger knows of it.
    ///   - limit: how long all of it may take.
    /// - Throws: `StripeAPIError` where Stripe cannot be asked to the end; what it had said by then is recorded.
    func run(
        _ id: String, in environment: StoreEnvironment, known: WebOriginal?, within limit: Duration
    ) async throws -> Finding {
        // Somebody waits for what it finds.
        guard let client = ingestion.client(environment)?.taking(.customers) else { return Finding() }
        let asking = Asking(client: client, environment: environment, end: .now + limit)
        var finding = Finding()
        guard let original = try await begin(id, asking, &finding) else { return finding }
        finding.originalTransactionID = original
        if original.hasPrefix("sub_") {
            try await readInvoices(of: original, asking, &finding)
            // Whose it is may stand in its session alone.
            let isNamed = finding.facts.contains { $0.originalTransactionID == original && !$0.owners.isEmpty }
            if !isNamed, known?.statedOwner == nil {
                try await readList(.sessions(ofSubscription: original), asking, &finding) { !$0.isUnfinished }
            }
        } else if original.hasPrefix("pi_") {
            try await readTakenBack(of: original, asking, &finding)
        }
        // Also what failed since, which no list of a payment may show any more.
        for refund in known?.refunds ?? [] where !finding.seen.contains(refund.value.refundID) {
            try await read(first: [.refund(refund.value.refundID)], asking, &finding)
        }
        for dispute in Set((known?.disputes ?? []).map(\.value.disputeID)).sorted()
        where !finding.seen.contains(dispute) {
            try await read(first: [.dispute(dispute)], asking, &finding)
        }
        finding.facts = finding.facts.filter { $0.originalTransactionID == original }
        return finding
    }

    private struct Asking: Sendable {
        let client: StripeClient
        let environment: StoreEnvironment
        let end: ContinuousClock.Instant

        /// How long one object, or one page of a list, may take: somebody waits, and a Stripe that says nothing for so long
        /// does not speak at all.
        private static let patience = Duration.seconds(30)

        var left: Duration { max(.zero, min(Self.patience, end - .now)) }
    }

    // MARK: - What it is

    /// Reads what was asked about, and finds out which purchase that is; `nil` where Stripe knows none.
    private func begin(_ id: String, _ asking: Asking, _ finding: inout Finding) async throws -> String? {
        guard let lookup = StripeLookup(id: id) else { return nil }
        if id.hasPrefix("pi_") {
            // It may be what paid for a subscription.
            let first = [lookup, .sessionOfPayment(id), .invoiceOfPayment(id)]
            let found = try await read(first: first, asking, &finding)
            guard let found, found != id else { return found }
            return try await begin(found, asking, &finding)
        }
        let original = try await read(first: [lookup], asking, &finding)
        guard let original, original != id else { return original }
        return try await begin(original, asking, &finding)
    }

    // MARK: - What belongs to it

    private func readInvoices(of subscription: String, _ asking: Asking, _ finding: inout Finding) async throws {
        var customer: String?
        try await readList(.invoices(ofSubscription: subscription), asking, &finding) { listed in
            customer = customer ?? listed.customer
            return !listed.isUnfinished
        }
        guard let customer else { return }
        var taken: [String] = []
        try await readList(.charges(ofCustomer: customer), asking, &finding) { listed in
            if listed.isTakenBack, let id = listed.id { taken.append(id) }
            return false
        }
        for charge in taken.prefix(Self.mostTakenBack) { try await readTakenBack(of: charge, asking, &finding) }
    }

    /// Refunds and disputes of a payment, which may be another purchase's of the same customer.
    private func readTakenBack(of payment: String, _ asking: Asking, _ finding: inout Finding) async throws {
        for list in [StripeListing.refunds(ofPayment: payment), .disputes(ofPayment: payment)] {
            var ids: [String] = []
            try await readList(list, asking, &finding) { listed in
                if let id = listed.id { ids.append(id) }
                return true
            }
            finding.seen.formUnion(ids)
        }
    }

    /// Reads every object of a list that is wanted.
    private func readList(
        _ list: StripeListing, _ asking: Asking, _ finding: inout Finding, _ isWanted: (StripeListed) -> Bool
    ) async throws {
        let readAt = ingestion.now()
        try await ingestion.pages(asking.client, within: asking.left, path: { list.page(after: $0) }) { page in
            for body in page.elements {
                guard let listed = try? StripeListed(parsing: body) else {
                    finding.refuse("an object of \(list.name) cannot be read")
                    continue
                }
                if isWanted(listed) { try await read(body, at: readAt, first: [], asking, &finding) }
            }
        }
    }

    // MARK: - Reading

    /// Reads something, and records what it says; returns which purchase it is about.
    @discardableResult
    private func read(
        _ subject: [UInt8]? = nil, at readAt: Timestamp? = nil, first: [StripeLookup], _ asking: Asking,
        _ finding: inout Finding
    ) async throws -> String? {
        do {
            var reading = StripeReading(environment: asking.environment, readAt: readAt ?? ingestion.now())
            if let subject { try reading.add(subject: subject) }
            try await ingestion.complete(&reading, beginningWith: first, asking.client, until: .now + asking.left)
            let result = try await ingestion.record(reading)
            finding.facts.append(result.fact)
            if case .recorded(let position) = result.outcome, let original = result.fact.originalTransactionID {
                finding.recorded.append((original, position))
            }
            return result.fact.originalTransactionID
        } catch let error as PayloadError {
            finding.refuse("\(error)")
            return nil
        }
    }
}

extension StripeCheck.Finding {
    fileprivate mutating func refuse(_ reason: String) {
        refused += 1
        refusal = reason
    }
}

extension StoreCheckDocument.StoreWord {
    /// What Stripe says, read as the ledger would read it if it knew nothing else.
    ///
    /// - Returns: `nil` where nothing was said of the purchase.
    init?(_ facts: [WebFact], of original: String, _ catalog: Catalog, at instant: Timestamp) {
        guard !facts.isEmpty else { return nil }
        var state = OriginalState()
        for (index, fact) in facts.enumerated() {
            var fact = fact
            // Whose it is has no bearing, and has no number yet.
            fact.owners = []
            state.join(.web(fact), originalTransactionID: original, source: .serverAPI, position: Int64(index + 1))
        }
        let subscription = state.web?.subscriptions.last?.value
        let item = subscription?.items.first?.product
        let reading = state.reading(catalog, at: instant)
        let latest = reading?.period ?? state.chains(catalog).flatMap(\.periods).max { $0.end < $1.end }
        self.init(
            state: reading?.segment.state, stripeStatus: subscription?.status.raw,
            productID: latest?.fact.productID
                ?? item.flatMap { catalog.productID(of: $0) ?? $0.product ?? $0.price } ?? "",
            transactionID: latest?.fact.transactionID ?? original,
            expiresAt: latest.flatMap { $0.expiry == .endless ? nil : $0.expiry }, revokedAt: latest?.revokedAt,
            willRenew: subscription == nil ? nil : state.willRenew(at: instant),
            graceEndsAt: reading.flatMap { $0.segment.state == .inGracePeriod ? $0.segment.end : nil },
            transactions: state.chains(catalog).map(\.periods.count).reduce(0, +))
    }
}
