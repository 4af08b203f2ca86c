import AppStoreServer
package import EntitlementCore
package import Ledger

/// Brings customers whom another system knew into the ledger: asks the store about each of a list of transaction ids.
///
/// One id brings everything that its Apple account bought in the app, so ids of which an answer spoke already are passed
/// over. After each page of the list it is noted how far that has come; what was stopped goes on there, and what is asked
/// about twice is recorded once.
package struct StoreImport: Sendable {
    /// How many ids one page of the list has.
    private static let page = 100
    /// How many are asked about at once: more would only wait for their turn under the store's limits.
    private static let width = 8
    /// How many ids are remembered of which an answer spoke.
    private static let mostRemembered = 500_000
    /// How long the store may take for one id, its turn included.
    private static let patience = Duration.seconds(600)
    /// Well below the time after which a silent holder is taken for dead.
    private static let heartbeat = Duration.seconds(10)
    /// How many ids that the store does not know are named.
    private static let mostNamed = 20

    /// What became of an import.
    package struct Report: Sendable {
        package var standing: ImportStanding
        /// Some of the ids that the store does not know, in this run.
        package var unknownIDs: [String] = []
        /// How many ids of this run were asked about; the others had been spoken of.
        package var asked: Int64 = 0
        /// How many events this run recorded.
        package var recorded: Int64 = 0
        /// Why the last statement was not believed.
        package var refusal: String?
    }

    private let check: StoreCheck
    private let environment: StoreEnvironment
    private let register: ImportRegister

    package init(_ check: StoreCheck, in environment: StoreEnvironment, register: ImportRegister) {
        self.check = check
        self.environment = environment
        self.register = register
    }

    /// Imports to the end of the list.
    ///
    /// - Parameters:
    ///   - ids: the whole list, what was done before included.
    ///   - isAnew: whether it begins at the first id whatever was done before.
    ///   - progress: called after each page.
    /// - Returns: `nil` where another process is importing the same list.
    /// - Throws: `StoreAPIError` where the store cannot be asked now; everything noted until then stays done.
    package func run(
        _ ids: some RandomAccessCollection<Substring> & Sendable, isAnew: Bool = false,
        progress: @Sendable (Report) -> Void = { _ in }
    ) async throws -> Report? {
        guard let standing = try await register.begin(total: Int64(ids.count), isAnew: isAnew) else { return nil }
        var report = Report(standing: standing)
        let signs = Task { [register] in
            while !Task.isCancelled {
                try await Task.sleep(for: Self.heartbeat)
                try? await register.touch()
            }
        }
        defer { signs.cancel() }
        do {
            var known: Set<String> = []
            while report.standing.done < Int64(ids.count) {
                try Task.checkCancellation()
                let page = ids.dropFirst(Int(report.standing.done)).prefix(Self.page)
                let count = page.count
                try await importPage(page.map(String.init), &report, &known)
                report.standing.done += Int64(count)
                try await register.note(report.standing)
                progress(report)
            }
            try await register.release()
            return report
        } catch {
            let isStopped = error is CancellationError || Task.isCancelled
            await Task { [register] in try? await register.release() }.value
            throw isStopped ? CancellationError() : error
        }
    }

    private func importPage(_ page: [String], _ report: inout Report, _ known: inout Set<String>) async throws {
        var waiting = page[...]
        try await withThrowingTaskGroup(of: (id: String, finding: StoreCheck.Finding).self) { group in
            var running = 0
            while !waiting.isEmpty || running > 0 {
                while running < Self.width, let id = waiting.popFirst() {
                    if known.contains(id) { continue }
                    // Of two in one page, one is enough.
                    known.insert(id)
                    running += 1
                    group.addTask { (id, try await check.run(id, in: environment, within: Self.patience)) }
                }
                guard running > 0, let (id, finding) = try await group.next() else { continue }
                running -= 1
                report.asked += 1
                report.recorded += Int64(finding.recorded.count)
                report.standing.recorded += Int64(finding.recorded.count)
                report.standing.refused += Int64(finding.refused)
                report.refusal = finding.refusal ?? report.refusal
                if finding.transactions.isEmpty, finding.refused == 0 {
                    report.standing.unknown += 1
                    if report.unknownIDs.count < Self.mostNamed { report.unknownIDs.append(id) }
                }
                if known.count > Self.mostRemembered { known.removeAll() }
                for transaction in finding.transactions.values {
                    known.insert(transaction.transactionID)
                    known.insert(transaction.originalTransactionID)
                }
            }
        }
    }
}
