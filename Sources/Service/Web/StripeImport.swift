import AppStorePayloads
import EntitlementCore
package import Ledger
package import OutgoingHTTP
package import StripeAPI
import StripePayloads

/// Reads everything that a Stripe account holds, however old: its lists of sessions, payments, subscriptions, invoices, refunds
/// and disputes.
///
/// Each object is a reading of its own, and an event if it says something new. After each page it is noted how far that has
/// come; what was stopped goes on there, and what is read twice is recorded once. An object that Stripe cannot be asked about
/// is set aside, and read at the end, or by the next run; an outage is waited out.
package struct StripeImport: Sendable {
    /// How long things take.
    package struct Intervals: Sendable {
        /// One page of a list, or all that one object calls for.
        package var patience = Duration.seconds(60)
        /// How long an outage is waited out.
        package var outage = Duration.seconds(900)
        /// Between attempts during one.
        package var backoff = Backoff(first: .seconds(5), longest: .seconds(30))

        package init() {}
    }

    /// What became of it.
    package struct Report: Sendable {
        package var standing: WebImportStanding
        /// Which list is read.
        package var list: String
        /// Some of the objects that cannot be read, and why, in this run.
        package var refusals: [String] = []
        /// Why Stripe could not be asked about objects of this run, by id.
        package var failures: [String: String] = [:]
        /// Some of the originals that belong to nobody, in this run.
        package var unownedIDs: [String] = []
        /// Payments of this run of which nothing says what was paid for, and some of them.
        package var nameless: Int64 = 0
        package var namelessIDs: [String] = []
        /// How many objects and events this run came to.
        package var read: Int64 = 0
        package var recorded: Int64 = 0
        /// Why nothing goes on at the moment.
        package var outage: String?
    }

    /// How many objects are looked up at once: more would only wait for their turn under Stripe's limits.
    private static let width = 8
    /// How many objects are set aside; more point to a cause that is to be mended first.
    private static let mostFailed = 1000
    /// How often an object is read in a row, beside others that can be read, before it is set aside.
    private static let attempts = 2
    /// How often the object may be gone in one run after which a list goes on; only what is deleted meanwhile is gone.
    private static let mostGone = 100

    private let ingestion: StripeIngestion
    private let client: StripeClient
    private let register: WebImportRegister
    private let ownerMetadata: String?
    private let owners: StripeOwnerList
    private let intervals: Intervals
    private let lists: [StripeListing]

    /// Whether something can be a key of Stripe's metadata.
    package static func isOwnerMetadata(_ key: String) -> Bool { StripeMetadata.isKey(key) }

    /// - Parameters:
    ///   - ownerMetadata: another key of metadata under which is written whose a purchase is.
    ///   - owners: a team's own list of whose what is.
    package init(
        _ ingestion: StripeIngestion, _ client: StripeClient, register: WebImportRegister, ownerMetadata: String? = nil,
        owners: StripeOwnerList = StripeOwnerList(), intervals: Intervals = Intervals()
    ) {
        self.ingestion = ingestion
        self.client = client
        self.register = register
        self.ownerMetadata = ownerMetadata
        self.owners = owners
        self.intervals = intervals
        lists = StripeListing.all(withCustomers: ownerMetadata != nil)
    }

    /// Reads to the end of the last list.
    ///
    /// - Parameters:
    ///   - isAnew: whether it begins at the first list whatever was done before.
    ///   - progress: called after each page, and when an outage begins.
    /// - Returns: `nil` where another process is at work. What could not be read stands in `standing.failed`, and then the next
    ///   run goes on with that.
    /// - Throws: `StripeAPIError` where Stripe cannot be asked now; everything noted until then stays done.
    package func run(
        isAnew: Bool = false, progress: @Sendable (Report) -> Void = { _ in }
    ) async throws -> Report? {
        guard let standing = try await register.begin(isAnew: isAnew) else { return nil }
        var report = Report(standing: standing, list: "")
        do {
            try await Lease.keepAlive(by: register.touch) {
                while report.standing.list < lists.count {
                    try await readList(lists[report.standing.list], &report, progress)
                }
                try await readFailed(&report, progress)
            }
            if report.standing.failed.isEmpty {
                try await register.complete(after: report.standing)
            } else {
                try await register.letGo("\(report.standing.failed.count) objects cannot be read")
            }
            return report
        } catch {
            throw await Lease.letGo(after: error) { [register] in try await register.letGo($0) }
        }
    }

    // MARK: - Pages

    /// Reads a list to its end, from where it was left.
    private func readList(
        _ list: StripeListing, _ report: inout Report, _ progress: @Sendable (Report) -> Void
    ) async throws {
        report.list = list.name
        let number = report.standing.list
        var way = Way(trail: ListTrail(from: report.standing.cursor))
        while report.standing.list == number {
            try await readPage(of: list, &way, &report, progress)
        }
    }

    /// How a list was followed in one run.
    private struct Way {
        var trail: ListTrail
        /// How often the object was gone after which it goes on.
        var gone = 0
    }

    private func readPage(
        of list: StripeListing, _ way: inout Way, _ report: inout Report, _ progress: @Sendable (Report) -> Void
    ) async throws {
        // What changes after this is told by an event, which counts before what was read.
        let readAt = ingestion.now()
        let place = report.standing
        let (page, isGone) = try await waitingOut(&report, progress) {
            do {
                return (try await self.page(list, after: place.cursor, until: place.cursorCreatedAt), false)
            } catch let error as StripeAPIError where place.cursor != nil && error.param == "starting_after" {
                // The object is gone since: what is as old is read once more.
                return (try await self.page(list, after: nil, until: place.cursorCreatedAt), true)
            }
        }
        if isGone {
            // So it may lead to where it has led before.
            way = Way(trail: ListTrail(from: place.cursor), gone: way.gone + 1)
        }
        var objects: [Object] = []
        for body in page.elements {
            guard let listed = try? StripeListed(parsing: body, ownerMetadata: ownerMetadata), let id = listed.id else {
                report.refuse("an object of \(list.name) without an id", "is none that can be read")
                continue
            }
            report.standing.cursorCreatedAt = listed.created ?? report.standing.cursorCreatedAt
            if listed.isUnfinished {
                report.standing.unfinished += 1
            } else if list.isOfPayments, !listed.isNamed, !owners.names(id) {
                // Most are of subscriptions, or of checkouts, of which other lists tell.
                report.standing.unrelated += 1
            } else {
                objects.append(Object(id: id, body: body, isPurchase: list.isOfPurchases))
            }
        }
        let ends = try await readAll(objects, at: readAt, &report, progress)
        report.standing.read += Int64(page.elements.count)
        report.read += Int64(page.elements.count)
        if page.hasMore {
            guard let last = page.lastID, way.trail.follow(last), way.gone <= Self.mostGone else {
                throw StripeAPIError(endless: list.page())
            }
            report.standing.cursor = last
        } else {
            report.standing.list += 1
            (report.standing.cursor, report.standing.cursorCreatedAt) = (nil, nil)
        }
        try await register.note(report.standing, after: place, restingOn: ends)
        progress(report)
    }

    private func page(_ list: StripeListing, after: String?, until: Timestamp?) async throws -> StripeList {
        // The bound is for when the object after which it goes on is gone.
        let path = list.page(after: after, until: after == nil ? until : nil)
        return try await ingestion.page(path, client, within: intervals.patience)
    }

    /// Reads what Stripe could not be asked about before; of an object only its id is known then.
    private func readFailed(_ report: inout Report, _ progress: @Sendable (Report) -> Void) async throws {
        let last = report.standing
        let failed = last.failed
        guard !failed.isEmpty else { return }
        report.list = "what could not be read before"
        report.standing.failed = []
        let objects = failed.map { id in
            Object(id: id, body: nil, isPurchase: ["sub_", "cs_", "pi_"].contains { id.hasPrefix($0) })
        }
        let ends = try await readAll(objects, at: ingestion.now(), &report, progress)
        try await register.note(report.standing, after: last, restingOn: ends)
        progress(report)
    }

    // MARK: - Objects

    /// An object that is to be read.
    private struct Object: Sendable {
        let id: String
        /// As it stands in the list; `nil` where it is to be read by its id.
        let body: [UInt8]?
        /// Whether it should be somebody's.
        let isPurchase: Bool
    }

    /// Reads objects, several at once; what fails beside others that do not is set aside.
    ///
    /// - Returns: where the log ended once it held what they say.
    /// - Throws: `StripeAPIError` where Stripe cannot be asked at all.
    private func readAll(
        _ objects: [Object], at readAt: Timestamp, _ report: inout Report, _ progress: @Sendable (Report) -> Void
    ) async throws -> Set<EventMark> {
        var waiting = objects
        var ends: Set<EventMark> = []
        var attempt = 0
        while true {
            attempt += 1
            let failures = try await readOnce(waiting, at: readAt, &report, &ends)
            guard let (_, error) = failures.first else { return ends }
            // A key that lacks a permission lacks it for the others, too.
            if error.kind == .forbidden || error.kind == .unauthorized { throw error }
            // Whatever is wrong with one of them, a list can be had while Stripe is there at all.
            let probe = lists[0]
            _ = try await waitingOut(&report, progress) { try await self.page(probe, after: nil, until: nil) }
            guard attempt == Self.attempts else {
                waiting = failures.map(\.object)
                continue
            }
            for (object, error) in failures {
                guard report.standing.failed.count < Self.mostFailed else { throw error }
                report.standing.failed.append(object.id)
                report.failures[object.id] = error.description
            }
            return ends
        }
    }

    private enum Answer: Sendable {
        /// - Parameter known: the end of the log that said already whose it is, and what was paid for; `nil` where none did.
        case told(StripeIngestion.Result, known: EventMark?)
        case refused(String)
        case failed(StripeAPIError)
    }

    /// Reads each once; returns those that Stripe could not be asked about.
    private func readOnce(
        _ objects: [Object], at readAt: Timestamp, _ report: inout Report, _ ends: inout Set<EventMark>
    ) async throws -> [(object: Object, error: StripeAPIError)] {
        var failures: [(object: Object, error: StripeAPIError)] = []
        try await withThrowingTaskGroup(of: (Object, Answer).self) { group in
            var waiting = objects[...]
            for _ in 0..<Self.width {
                if let object = waiting.popFirst() { group.addTask { (object, try await read(object, at: readAt)) } }
            }
            while let (object, answer) = try await group.next() {
                switch answer {
                case .told(let result, let known):
                    report.note(result, of: object.id, isPurchase: object.isPurchase && known == nil)
                    ends.insert(result.end)
                    if let known { ends.insert(known) }
                case .refused(let reason): report.refuse(object.id, reason)
                case .failed(let error): failures.append((object, error))
                }
                if let object = waiting.popFirst() { group.addTask { (object, try await read(object, at: readAt)) } }
            }
        }
        return failures
    }

    private func read(_ object: Object, at readAt: Timestamp) async throws -> Answer {
        do {
            var reading = StripeReading(
                environment: client.environment, readAt: readAt, ownerMetadata: ownerMetadata)
            var first: [StripeLookup] = []
            if let body = object.body {
                try reading.add(subject: body)
            } else if let lookup = StripeLookup(id: object.id) {
                first = [lookup]
            }
            let isPayment = object.id.hasPrefix("pi_")
            let known = try await isPayment ? told(ofPayment: object.id) : nil
            // Without a session it was made by a server of the team's own, if it is for no invoice.
            if isPayment, known == nil { first += [.sessionOfPayment(object.id), .invoiceOfPayment(object.id)] }
            reading.ownerEntry = ownerEntry(of: object, reading)
            try await ingestion.complete(
                &reading, beginningWith: first, client, until: .now + intervals.patience)
            reading.ownerEntry = reading.ownerEntry ?? ownerEntry(of: object, reading)
            reading.settleOwner()
            return .told(try await ingestion.record(reading), known: known)
        } catch let error as PayloadError {
            return .refused("\(error)")
        } catch let error as StripeAPIError {
            try Task.checkCancellation()
            return .failed(error)
        }
    }

    /// What the list says of an object, by what is known of it now.
    private func ownerEntry(of object: Object, _ reading: StripeReading) -> StripeOwnerEntry? {
        guard object.isPurchase else { return nil }
        // Whose a subscription is stands in its own metadata, which a session does not show.
        let isBesideSubscription = object.id.hasPrefix("cs_") && reading.original?.hasPrefix("sub_") ?? false
        return owners.entry(ofAny: [object.id] + (isBesideSubscription ? [] : reading.names))
    }

    /// The end of the log that says whose a payment is, and what was paid for: its session has said so, or an earlier run.
    private func told(ofPayment id: String) async throws -> EventMark? {
        guard
            let known = try await ingestion.reader.subscription(id, environment: client.environment).subscription,
            let web = known.state.web, web.statedOwner != nil,
            web.payments.contains(where: { $0.value.catalogProductID != nil || !$0.value.products.isEmpty })
        else { return nil }
        return known.end
    }

    // MARK: - Outages

    /// Asks for something that can be had while Stripe is there at all, again and again while it is not.
    private func waitingOut<Value: Sendable>(
        _ report: inout Report, _ progress: @Sendable (Report) -> Void, _ body: () async throws -> Value
    ) async throws -> Value {
        var outage = Outage(patience: intervals.outage, intervals.backoff)
        while true {
            do {
                return try await body()
            } catch let error as StripeAPIError where error.isPassing || error.kind == .outOfTime {
                try Task.checkCancellation()
                guard let pause = outage.pause(at: .now, wish: error.wish(at: ingestion.now())) else { throw error }
                report.outage = error.description
                try await register.note(outage: error.description)
                progress(report)
                try await Task.sleep(for: pause)
                report.outage = nil
            }
        }
    }
}

extension StripeAPIError {
    /// How long Stripe wants to be left alone; `nil` where it does not say.
    fileprivate func wish(at now: Timestamp) -> Duration? {
        guard case .limited(let until?) = kind else { return nil }
        return .milliseconds(until.milliseconds - now.milliseconds)
    }
}

extension StripeListing {
    /// Whether what it lists should be somebody's.
    fileprivate var isOfPurchases: Bool { name == "subscriptions" || name == "checkout/sessions" || isOfPayments }

    fileprivate var isOfPayments: Bool { name == "payment_intents" }
}
