import EntitlementCore
import EntitlementKit
import Foundation
import StoreSimulator
import Synchronization

/// What is the matter with a device, beside what the store shows to it.
final class KitCondition: Sendable {
    /// What becomes of purchases.
    enum Purchases: CaseIterable, Sendable, Hashable {
        case made
        /// The person changes their mind.
        case cancelled
        /// The person has to agree to something first: the call says cancelled, and the purchase may come later.
        case interrupted
        /// The network fails before anything was bought.
        case networkFails
    }

    private struct State {
        var isLocked = false
        var stalled: Set<String> = []
        var waiting: [CheckedContinuation<Void, Never>] = []
        /// How far its calendar clock is ahead, in milliseconds.
        var clockOffset: Int64 = 0
        var purchases = Purchases.made
        var signsAnew = false
    }

    private let state = Mutex(State())

    /// Whether it was not unlocked since its start, so that no file can be read or written.
    var isLocked: Bool {
        get { state.withLock { $0.isLocked } }
        set { state.withLock { $0.isLocked = newValue } }
    }

    /// How far its calendar clock is ahead, in milliseconds.
    var clockOffset: Int64 {
        get { state.withLock { $0.clockOffset } }
        set { state.withLock { $0.clockOffset = newValue } }
    }

    var purchases: Purchases {
        get { state.withLock { $0.purchases } }
        set { state.withLock { $0.purchases = newValue } }
    }

    /// Whether the store signs what it shows anew at each call.
    var signsAnew: Bool {
        get { state.withLock { $0.signsAnew } }
        set { state.withLock { $0.signsAnew = newValue } }
    }

    /// The calls of the store that hang.
    var stalled: Set<String> { state.withLock { $0.stalled } }

    /// Lets calls of the store hang, and those go on that do so no more.
    func stall(_ calls: Set<String>) {
        let waiting = state.withLock { state in
            state.stalled = calls
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Returns once a call does not hang any more.
    func pass(_ call: String) async {
        while stalled.contains(call) {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.stalled.contains(call) { state.waiting.append(continuation) }
                    return !state.stalled.contains(call)
                }
                if isOver { continuation.resume() }
            }
        }
    }
}

/// The world's time, as a device tells it whose calendar clock people can set.
struct DeviceClock: EntitlementClock {
    let world: WorldClock
    let condition: KitCondition

    func now() -> Date { world.now() + Double(condition.clockOffset) / 1000 }

    func uptime() -> Duration { world.uptime() }

    func sleep(until uptime: Duration) async throws { try await world.sleep(until: uptime) }
}

/// What somebody does to a device's files who is not the app.
enum KitTampering: CaseIterable {
    /// The system makes room.
    case purge
    /// A purchase that nobody signed.
    case forgery
    case clockDeleted
    case statementsCut
    case serverGarbled
    case queueDeleted

    /// Does it to the files in a directory.
    ///
    /// - Parameters:
    ///   - forged: a transaction that a forger signed.
    ///   - instant: when that is to have been confirmed, in milliseconds since 1970.
    func apply(to directory: URL, forged: DeviceStatement? = nil, at instant: Int64 = 0) throws {
        func file(_ name: String) -> URL { directory.appending(path: name) }
        let files = FileManager.default
        switch self {
        case .purge:
            for name in (try? files.contentsOfDirectory(atPath: directory.path)) ?? [] {
                try? files.removeItem(at: file(name))
            }
        case .forgery:
            guard let forged, let handle = try? FileHandle(forWritingTo: file("statements.jsonl")) else { return }
            let confirmed = Timestamp(milliseconds: instant)
            let rows = [
                "{\"transaction\":\"\(forged.jws)\"}",
                "{\"confirmed\":{\"\(forged.transactionID)\":\"\(confirmed)\"}}",
            ]
            try handle.seekToEnd()
            try handle.write(contentsOf: Data((rows.joined(separator: "\n") + "\n").utf8))
            try handle.close()
        case .clockDeleted: try? files.removeItem(at: file("clock.json"))
        case .queueDeleted: try? files.removeItem(at: file("queue.json"))
        case .statementsCut:
            guard let kept = try? Data(contentsOf: file("statements.jsonl")) else { return }
            try kept.prefix(kept.count / 2).write(to: file("statements.jsonl"))
        case .serverGarbled:
            guard files.fileExists(atPath: file("server.json").path) else { return }
            try Data("{\"memories\":[{\"answer\":".utf8).write(to: file("server.json"))
        }
    }
}
