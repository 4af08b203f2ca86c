import EntitlementKit
import Foundation
import Synchronization

/// One launch of an app, which can be killed at any call that leaves it.
///
/// Whatever runs on after its death runs in a void: its disk, its store and its server hear nothing of it.
final class KitProcess: Sendable {
    private struct State {
        var calls = 0
        var dyingCall: Int?
        var isDead = false
        var deathPlace: String?
    }

    private let state: Mutex<State>

    /// - Parameter dyingCall: the call at which it dies, counted from 1; each call counts when it is made and when it
    ///   comes back.
    init(dyingAt dyingCall: Int? = nil) { state = Mutex(State(dyingCall: dyingCall)) }

    var isDead: Bool { state.withLock { $0.isDead } }

    /// Where it died, for people who read failures.
    var deathPlace: String? { state.withLock { $0.deathPlace } }

    func kill() { state.withLock { $0.isDead = true } }

    /// Passes one of its ends of a call; false once it is dead.
    func passes(_ place: String) -> Bool {
        state.withLock { state in
            guard !state.isDead else { return false }
            state.calls += 1
            if state.calls == state.dyingCall {
                state.isDead = true
                state.deathPlace = place
            }
            return !state.isDead
        }
    }

    struct Killed: Error {}

    /// Makes a call that may be its last, at either end.
    func call<Answer: Sendable>(_ place: String, or dead: Answer, _ body: @Sendable () async throws -> Answer)
        async rethrows -> Answer
    {
        guard passes("before \(place)") else { return dead }
        let answer = try await body()
        return passes("after \(place)") ? answer : dead
    }

    /// The same, where a call may fail.
    func call<Answer: Sendable>(_ place: String, _ body: @Sendable () async throws -> Answer) async throws -> Answer {
        guard passes("before \(place)") else { throw Killed() }
        let answer = try await body()
        guard passes("after \(place)") else { throw Killed() }
        return answer
    }
}

/// A device's disk, as one launch sees it.
///
/// What a process had begun to write when it died is written: the next launch waits for that, as for any file system.
actor KitDisk: EntitlementStorage {
    private let process: KitProcess
    private let storage: FileEntitlementStorage
    private let condition: KitCondition
    private var underWay = 0
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(_ process: KitProcess, _ directory: URL, _ condition: KitCondition = KitCondition()) {
        self.process = process
        self.condition = condition
        storage = FileEntitlementStorage(directory: directory)
    }

    func read(_ name: String) async throws -> StoredContent {
        try await process.call("read \(name)") { [storage, condition] in
            if condition.isLocked { throw CocoaError(.fileReadNoPermission) }
            return try await storage.read(name)
        }
    }

    func version(of name: String) async throws -> StorageVersion {
        try await process.call("version of \(name)") { [storage, condition] in
            if condition.isLocked { throw CocoaError(.fileReadNoPermission) }
            return try await storage.version(of: name)
        }
    }

    func save(
        _ change: StorageChange, as name: String, over version: StorageVersion
    ) async throws -> StorageVersion? {
        begin()
        defer { end() }
        return try await process.call("write \(name)") { [storage, condition] in
            if condition.isLocked { throw CocoaError(.fileWriteNoPermission) }
            return try await storage.save(change, as: name, over: version)
        }
    }

    func setAside(_ name: String) async {
        begin()
        defer { end() }
        await process.call("setAside \(name)", or: ()) { [storage] in await storage.setAside(name) }
    }

    /// Returns once nothing is being written any more; the process is dead, so nothing more will be.
    func settle() async {
        guard underWay > 0 else { return }
        await withCheckedContinuation { waiting.append($0) }
    }

    private func begin() { underWay += 1 }

    private func end() {
        underWay -= 1
        guard underWay == 0 else { return }
        for continuation in waiting { continuation.resume() }
        waiting = []
    }
}
