import EntitlementAPI
import EntitlementCore
import Foundation

/// What is on disk, and what is not yet.
struct DiskState {
    /// One concern each, so that what cannot be read takes nothing else with it.
    enum File: String, CaseIterable {
        case statements = "statements.json"
        case server = "server.json"
        case queue = "queue.json"
        case identity = "identity.json"
        case clock = "clock.json"
    }

    /// Not read yet; it must not be written before.
    var unread = Set(File.allCases)
    /// When each last changed.
    var changed: [File: Int] = [:]
    /// Up to which change, of whichever file, each is on disk.
    var durable: [File: Int] = [:]
    private(set) var changes = 0
    var writing: Task<Bool, Never>?

    mutating func note(_ file: File) {
        changes += 1
        changed[file] = changes
    }

    var outdated: [File] { File.allCases.filter { (changed[$0] ?? 0) > (durable[$0] ?? 0) } }

    /// Whether everything up to a change is on disk.
    func isDurable(upTo change: Int) -> Bool { outdated.allSatisfy { (durable[$0] ?? 0) >= change } }
}

/// Whom the app said the customer is.
struct IdentityFile: Encodable {
    var customerID: String?
    /// What their purchases are signed with, where that is not their id.
    var accountToken: String?
}

private struct QueueFile: Encodable {
    var pending: [SyncQueue.Key]
}

extension EntitlementStore {
    /// Reads what is on disk and was not read yet.
    func load() async {
        for file in DiskState.File.allCases where disk.unread.contains(file) {
            let data: Data?
            do {
                data = try await storage.read(file.rawValue)
            } catch {
                // The device may not have been unlocked yet. It is tried again before anything is written.
                report(SyncEvent(kind: .storageFailed, transactionIDs: [], detail: "\(file.rawValue): \(error)"))
                continue
            }
            guard disk.unread.remove(file) != nil, let data else { continue }
            do {
                try restore(file, from: Array(data))
            } catch {
                await storage.setAside(file.rawValue)
                report(
                    SyncEvent(
                        kind: .storageFailed, transactionIDs: [],
                        detail: "\(file.rawValue) could not be understood, and was set aside: \(error)"))
            }
        }
    }

    /// Whether it is known on whose behalf this device acts: nothing may be posted, or shown, in another's name.
    var isIdentityKnown: Bool { !disk.unread.contains(.identity) || disk.changed[.identity] != nil }

    /// Reads what could not be read before, as before the device was first unlocked.
    func loadAgain() async {
        guard !disk.unread.isEmpty, !isStopped else { return }
        let (customerBefore, wasKnown) = (ledger.customerID, isIdentityKnown)
        await load()
        if ledger.customerID != customerBefore || isIdentityKnown != wasKnown { askAnew() }
        publish()
        resend()
        scheduleUnlock()
    }

    /// How often it is tried to read what could not be read, in milliseconds.
    private static let unlockInterval: Int64 = 15_000

    func scheduleUnlock() {
        schedule(&unlockTimer, due: disk.unread.isEmpty ? nil : uptime + Self.unlockInterval) { store in
            store.unlockTimer = nil
            await store.loadAgain()
        }
    }

    private func restore(_ file: DiskState.File, from bytes: [UInt8]) throws {
        // Row by row: another version of the app may have written more, or otherwise.
        let kept = try WireJSON.decode(WireValue.self, from: bytes)
        switch file {
        case .statements:
            ledger.book.join(StatementBook(StatementFile(kept)))
        case .server:
            ledger.restore(ServerFile(kept))
        case .queue:
            for row in kept["pending"]?.entries ?? [] {
                if let key = row.decoded(SyncQueue.Key.self) { _ = queue.add(key, isNews: false) }
            }
        case .identity:
            guard disk.changed[.identity] == nil else { return }
            ledger.identified = kept["customerID"]?.text
            ledger.issuedAccountToken = kept["accountToken"]?.text.flatMap { UUID(uuidString: $0) }
        case .clock:
            clockGuard.restore(ClockGuard(kept))
        }
    }

    /// Puts on disk whatever is not there yet; returns whether all that was known when it was called is.
    func persist() async -> Bool {
        let wanted = disk.changes
        while !disk.isDurable(upTo: wanted) {
            let attempt = disk.writing ?? Task { await writeOut() }
            disk.writing = attempt
            guard await attempt.value || disk.isDurable(upTo: wanted) else { return false }
        }
        return true
    }

    private func writeOut() async -> Bool {
        defer { disk.writing = nil }
        await loadAgain()
        var isComplete = true
        for file in disk.outdated {
            let change = disk.changes
            let kept = ledger.book
            do {
                guard !disk.unread.contains(file) else { throw CocoaError(.fileReadNoPermission) }
                try await storage.write(Data(try contents(of: file)), as: file.rawValue)
                disk.durable[file] = change
                if file == .statements { gate.stored(kept.content(of:)) }
            } catch {
                isComplete = false
                report(SyncEvent(kind: .storageFailed, transactionIDs: [], detail: "\(file.rawValue): \(error)"))
            }
        }
        return isComplete
    }

    private func contents(of file: DiskState.File) throws -> [UInt8] {
        switch file {
        case .statements: try WireJSON.encode(StatementFile(ledger.book))
        case .server: try WireJSON.encode(ledger.serverFile)
        case .queue: try WireJSON.encode(QueueFile(pending: queue.pending))
        case .identity: try WireJSON.encode(ledger.identityFile)
        case .clock: try WireJSON.encode(clockGuard)
        }
    }
}
