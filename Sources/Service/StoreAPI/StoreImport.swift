import AppStoreServer
package import EntitlementCore
package import Ledger
package import OutgoingHTTP

/// Brings customers whom another system knew into the ledger: asks the store about each of a list of transaction ids.
///
/// One id brings everything that its Apple account bought in the app, so ids of which an answer spoke already are passed
/// over. After each page of the list it is noted how far that has come; what was stopped goes on there, and what is asked
/// about twice is recorded once. An id that the store cannot be asked about is set aside, and asked about first by the next
/// run; where none can be asked about, the store's outage is waited out.
package struct StoreImport: Sendable {
    /// How long things take.
    package struct Intervals: Sendable {
        /// How long the store may take for one id, its turns included.
        package var patience = Duration.seconds(600)
        /// For how long one request that fails is sent again.
        package var persistence = Duration.seconds(8)
        /// How long an outage is waited out.
        package var outage = Duration.seconds(900)
        /// Between attempts during one.
        package var backoff = Backoff(first: .seconds(5), longest: .seconds(30))

        package init() {}
    }

    /// One page of the list.
    private static let page = 100
    /// How many are asked about at once: more would only wait for their turn under the store's limits.
    private static let width = 8
    /// How many ids are remembered of which an answer spoke.
    private static let mostRemembered = 500_000
    /// How many ids that the store does not know are named.
    package static let mostNamed = 1000
    /// After so many different ids in a row that the store could not be asked about, it is the store.
    private static let mostInARow = 5
    /// How many ids are set aside; more point to a cause that is to be mended first.
    private static let mostFailed = 10_000

    /// What became of an import.
    package struct Report: Sendable {
        package var standing: ImportStanding
        /// Ids that the store does not know, in this run: some, or all where they are wanted.
        package var unknownIDs: [String] = []
        /// How many there were.
        package var unknown: Int64 = 0
        /// Why the store could not be asked about ids of this run, by id.
        package var failures: [String: String] = [:]
        /// How many ids of this run were asked about; the others had been spoken of.
        package var asked: Int64 = 0
        /// How many events this run recorded.
        package var recorded: Int64 = 0
        /// Why the last statement was not believed.
        package var refusal: String?
        /// Why nothing goes on at the moment.
        package var outage: String?
    }

    private let check: StoreCheck
    private let environment: StoreEnvironment
    private let register: ImportRegister
    private let intervals: Intervals
    private let mostUnknown: Int

    /// - Parameter keepsUnknown: whether every id of a run that the store does not know is kept, rather than some.
    package init(
        _ check: StoreCheck, in environment: StoreEnvironment, register: ImportRegister, keepsUnknown: Bool = false,
        intervals: Intervals = Intervals()
    ) {
        mostUnknown = keepsUnknown ? .max : Self.mostNamed
        self.check = check
        self.environment = environment
        self.register = register
        self.intervals = intervals
    }

    /// Imports to the end of the list.
    ///
    /// - Parameters:
    ///   - ids: the whole list, what was done before included.
    ///   - isAnew: whether it begins at the first id whatever was done before.
    ///   - begun: called with how far an earlier run came.
    ///   - progress: called after each page, and when an outage begins.
    /// - Returns: `nil` where another process is importing the same list.
    /// - Throws: `StoreAPIError` where the store cannot be asked now; everything noted until then stays done.
    package func run(
        _ ids: some RandomAccessCollection<Substring> & Sendable, isAnew: Bool = false,
        begun: @Sendable (ImportStanding) -> Void = { _ in }, progress: @Sendable (Report) throws -> Void = { _ in }
    ) async throws -> Report? {
        guard let standing = try await register.begin(total: Int64(ids.count), isAnew: isAnew) else { return nil }
        begun(standing)
        var report = Report(standing: standing)
        do {
            try await Lease.keepAlive(by: register.touch) { try await importAll(ids, &report, progress) }
            try await register.release()
            return report
        } catch {
            throw await Lease.letGo(after: error) { [register] _ in try await register.release() }
        }
    }

    /// Asks about what was set aside, and then about the rest of the list.
    private func importAll(
        _ ids: some RandomAccessCollection<Substring> & Sendable, _ report: inout Report,
        _ progress: @Sendable (Report) throws -> Void
    ) async throws {
        var work = Work(mostInARow: min(Self.mostInARow, ids.count))
        let failed = report.standing.failed
        for start in stride(from: 0, to: failed.count, by: Self.page) {
            let page = Array(failed[start..<min(failed.count, start + Self.page)])
            let last = report.standing
            // Until their page is noted they are still set aside.
            let rest = report.standing.failed.filter { !page.contains($0) }
            report.standing.failed = rest
            try await importPage(page, &report, &work, progress)
            try await noteDone(report, after: last, &work)
            try progress(report)
        }
        while report.standing.done < Int64(ids.count) {
            let page = ids.dropFirst(Int(report.standing.done)).prefix(Self.page)
            let count = page.count
            let last = report.standing
            try await importPage(page.map(String.init), &report, &work, progress)
            report.standing.done += Int64(count)
            try await noteDone(report, after: last, &work)
            try progress(report)
        }
    }

    /// Says that a page is in the log.
    private func noteDone(_ report: Report, after last: ImportStanding, _ work: inout Work) async throws {
        try await register.note(report.standing, after: last, restingOn: work.ends)
        work.ends = []
    }

    /// What one run keeps in mind.
    private struct Work {
        /// After so many failures in a row it is the store.
        let mostInARow: Int
        /// Ids of which an answer spoke.
        var known: Set<String> = []
        /// Failures of different ids since the last answer.
        var inARow = 0
        /// Where the log ended once it held what was told since a page was noted last.
        var ends: Set<EventMark> = []
    }

    /// A page of the list that is being asked about.
    private struct Page {
        /// What is still to be asked about: what never failed comes first.
        var waiting: [String]
        /// Why each failed last.
        var failed: [String: StoreAPIError] = [:]
        /// What keeps everything from being asked about.
        var outage: StoreAPIError?
    }

    /// Asks about everything on a page; what fails alone is set aside.
    ///
    /// - Throws: `StoreAPIError` where the store cannot be asked at all.
    private func importPage(
        _ ids: [String], _ report: inout Report, _ work: inout Work, _ progress: @Sendable (Report) throws -> Void
    ) async throws {
        var page = Page(waiting: ids)
        var outage = Outage(patience: intervals.outage, intervals.backoff)
        while true {
            try Task.checkCancellation()
            let isProbe = page.outage != nil
            page.outage = nil
            try await ask(&page, isProbe: isProbe, &report, &work)
            guard let error = page.outage else { break }
            guard error.isPassing, let pause = outage.pause(at: .now, wish: error.wish(at: check.now())) else {
                throw error
            }
            report.outage = error.description
            try progress(report)
            try await Task.sleep(for: pause)
            report.outage = nil
        }
        for (id, error) in page.failed.sorted(by: { $0.key < $1.key }) {
            guard report.standing.failed.count < Self.mostFailed else { throw error }
            report.standing.failed.append(id)
            report.failures[id] = error.description
        }
    }

    /// Asks about what is waiting, several at once, until nothing is or the store cannot be asked.
    ///
    /// - Parameter isProbe: whether the store could not be asked before: then one is asked about until there is an answer.
    private func ask(_ page: inout Page, isProbe: Bool, _ report: inout Report, _ work: inout Work) async throws {
        var waiting = page.waiting[...]
        let failedBefore = Set(page.failed.keys)
        page.failed = [:]
        var begun: Set<String> = []
        var failures: [(id: String, error: StoreAPIError)] = []
        var answered: Set<String> = []
        var outage: StoreAPIError?
        try await withThrowingTaskGroup(of: (id: String, answer: Answer).self) { group in
            var running = 0
            while running > 0 || (!waiting.isEmpty && outage == nil) {
                let width = isProbe && answered.isEmpty ? 1 : Self.width
                while running < width, outage == nil, let id = waiting.popFirst() {
                    // Of two in one page, one is enough.
                    guard !work.known.contains(id), begun.insert(id).inserted else { continue }
                    running += 1
                    group.addTask { (id, try await read(id)) }
                }
                guard running > 0, let (id, answer) = try await group.next() else { continue }
                running -= 1
                switch answer {
                case .told(let finding):
                    work.inARow = 0
                    answered.insert(id)
                    note(id, finding, &report, &work)
                case .failed(let error):
                    failures.append((id, error))
                    // One that fails again beside others that do not has a fault of its own.
                    if answered.isEmpty || !failedBefore.contains(id) { work.inARow += 1 }
                    if error.reach == .everyRequest || work.inARow >= work.mostInARow || (isProbe && answered.isEmpty) {
                        outage = outage ?? error
                    }
                }
            }
        }
        page.outage = outage
        if outage == nil {
            for (id, error) in failures { page.failed[id] = error }
        } else {
            for id in failedBefore { page.failed[id] = outage }
            for (id, error) in failures { page.failed[id] = error }
            for id in answered { page.failed[id] = nil }
            let open = page.waiting.filter { !answered.contains($0) && !work.known.contains($0) }
            let justFailed = Set(failures.map(\.id))
            page.waiting =
                open.filter { page.failed[$0] == nil }
                + open.filter { page.failed[$0] != nil && !justFailed.contains($0) }
                + open.filter { justFailed.contains($0) }
        }
    }

    private enum Answer: Sendable {
        case told(StoreCheck.Finding)
        case failed(StoreAPIError)
    }

    private func read(_ id: String) async throws -> Answer {
        do {
            return .told(
                try await check.run(
                    id, in: environment, .whole, within: intervals.patience, persistence: intervals.persistence))
        } catch let error as StoreAPIError {
            try Task.checkCancellation()
            return .failed(error)
        }
    }

    private func note(_ id: String, _ finding: StoreCheck.Finding, _ report: inout Report, _ work: inout Work) {
        report.asked += 1
        work.ends.formUnion(finding.ends)
        report.recorded += Int64(finding.recorded.count)
        report.standing.recorded += Int64(finding.recorded.count)
        report.standing.refused += Int64(finding.refused)
        report.refusal = finding.refusal ?? report.refusal
        if finding.transactions.isEmpty, finding.refused == 0 {
            report.standing.unknown += 1
            report.unknown += 1
            if report.unknownIDs.count < mostUnknown { report.unknownIDs.append(id) }
        }
        if work.known.count > Self.mostRemembered { work.known.removeAll() }
        work.known.insert(id)
        for transaction in finding.transactions.values {
            work.known.insert(transaction.transactionID)
            work.known.insert(transaction.originalTransactionID)
        }
    }
}

extension StoreAPIError {
    /// How long the store wants to be left alone; `nil` where it does not say.
    fileprivate func wish(at now: Timestamp) -> Duration? {
        guard case .limited(let until?) = kind else { return nil }
        return .milliseconds(until.milliseconds - now.milliseconds)
    }
}
