import EntitlementAPI
import EntitlementCore
public import Foundation

/// What an app's ``EntitlementStore`` last knew, for its extensions and widgets.
///
/// It reads the files of that store in an App Group, and does nothing else: it writes nothing, asks neither store nor server,
/// and finishes nothing. Let the app alone do that, and read again whenever something is to be shown.
public struct EntitlementReader: Sendable {
    private let configuration: EntitlementConfiguration
    private let storage: any EntitlementStorage
    private let clock: any EntitlementClock

    /// Reads the files of an app's store.
    ///
    /// - Parameters:
    ///   - configuration: the app's own; its bundle id is the app's, not the extension's. Where the app's store has no server,
    ///     ``EntitlementConfiguration/isSyncEnabled`` has to be off: else what no server has confirmed ends here after
    ///     ``EntitlementConfiguration/offlineBound``.
    ///   - directory: the one that the app's store was made with.
    public init(configuration: EntitlementConfiguration, directory: URL) {
        self.init(configuration: configuration, storage: FileEntitlementStorage(directory: directory))
    }

    /// The same for another storage.
    public init(
        configuration: EntitlementConfiguration, storage: any EntitlementStorage,
        clock: any EntitlementClock = SystemEntitlementClock()
    ) {
        self.configuration = configuration
        self.storage = storage
        self.clock = clock
    }

    /// What the customer holds now, by what the app's store knew when it last wrote.
    ///
    /// It is ``Entitlements/Kind/loading`` while the files cannot be read, as before the device was first unlocked, and
    /// where the app has written nothing yet.
    public func current() async -> Entitlements {
        do {
            var ledger = DeviceLedger(configuration)
            let statements = try await storage.read(DiskState.File.statements.rawValue).data
            if let statements {
                ledger.book.join(await KeptStatements.read(statements, configuration.statementVerifier).book)
            }
            if let kept = try await read(.server) { ledger.restore(ServerFile(kept, check: ledger.passCheck)) }
            if let kept = try await read(.identity) { ledger.restore(identity: kept) }
            guard statements != nil || ledger.memory != nil else { return .loading }
            var clockGuard = ClockGuard()
            if let kept = try await read(.clock) { clockGuard.restore(ClockGuard(kept), uptime: 0) }
            clockGuard.witness(signed: ledger.lastSigned, told: ledger.lastAnswered, uptime: 0)
            return read(&ledger, at: clockGuard.now(wall: Timestamp(clock.now()), uptime: 0))
        } catch {
            return .loading
        }
    }

    /// What a file holds; `nil` where there is none, or it is not understood.
    private func read(_ file: DiskState.File) async throws -> WireValue? {
        try await storage.read(file.rawValue).data.flatMap { try? WireJSON.decode(WireValue.self, from: Array($0)) }
    }

    private func read(_ ledger: inout DeviceLedger, at now: Timestamp) -> Entitlements {
        _ = ledger.forgetConfirmations(after: now)
        let bound = configuration.isSyncEnabled ? configuration.offlineBound.milliseconds : nil
        // Nobody can be asked here whether a subscription was renewed: it goes on for as long as anything unconfirmed does.
        let leeway = max(configuration.renewalLeeway, configuration.offlineBound)
        let fold = DeviceFold(ledger, leeway: leeway.milliseconds)
        return Entitlements(
            kind: .offline(asOf: ledger.memory?.confirmedAt?.date, reason: .readOnly),
            customerID: ledger.customerID?.value,
            environment: ledger.environment.map { StoreEnvironmentName(rawValue: $0) }, at: now.date,
            all: fold.entitlements(at: now, bound: bound))
    }
}
