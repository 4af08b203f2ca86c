public import Foundation

/// Where an ``EntitlementStore`` keeps what must survive a restart and a crash.
public protocol EntitlementStorage: Sendable {
    /// What was last written under a name; `nil` where nothing was.
    ///
    /// - Throws: where it cannot be read now, as before a device is first unlocked; it must not be overwritten then.
    func read(_ name: String) async throws -> Data?
    /// Replaces what a name holds, all or nothing; durable when it returns.
    func write(_ data: Data, as name: String) async throws
    /// Moves what a name holds out of the way, since it cannot be understood.
    func setAside(_ name: String) async
}

/// What is in memory is all there is: for previews and tests, where keeping the value is keeping the disk.
public actor InMemoryEntitlementStorage: EntitlementStorage {
    private var contents: [String: Data]

    /// Begins with what is given.
    public init(_ contents: [String: Data] = [:]) { self.contents = contents }

    /// What a name holds.
    public func read(_ name: String) -> Data? { contents[name] }

    /// Replaces what a name holds.
    public func write(_ data: Data, as name: String) { contents[name] = data }

    /// Keeps what a name holds under another name.
    public func setAside(_ name: String) { contents[name + ".unreadable"] = contents.removeValue(forKey: name) }
}
