import Foundation

@testable import EntitlementKit

/// A disk that can be full, locked, emptied or damaged, and that several processes write to.
actor ScriptedStorage: EntitlementStorage {
    private(set) var files: [String: Data] = [:]
    private var changes: [String: Int] = [:]
    private var isFull = false
    /// The next save finds the disk full, and those after it do not.
    private var isFullOnce = false
    /// The files that cannot be written.
    private var broken: Set<String> = []
    private var isLocked = false
    private(set) var aside: [String] = []
    /// How many bytes were written, and how often a file was replaced by another.
    private(set) var written = 0
    private(set) var replacements: [String: Int] = [:]
    /// Whoever saves waits here, between their look at what is there and the change.
    private var door: Door?

    /// Whoever reads a file next waits here, after their look at it.
    private var readDoors: [String: Door] = [:]

    func setFull(_ isFull: Bool) { self.isFull = isFull }

    func setFullOnce() { isFullOnce = true }

    func setBroken(_ names: Set<String>) { broken = names }

    func setLocked(_ isLocked: Bool) { self.isLocked = isLocked }

    func setDoor(_ door: Door?) { self.door = door }

    func setReadDoor(_ door: Door, of name: String) { readDoors[name] = door }

    /// The system makes room.
    func purge() { files = [:] }

    func damage(_ name: String) { put(Data("{\"never".utf8), as: name) }

    /// Somebody else writes.
    func put(_ data: Data?, as name: String) {
        files[name] = data
        changes[name, default: 0] += 1
    }

    func read(_ name: String) async throws -> StoredContent {
        if isLocked { throw CocoaError(.fileReadNoPermission) }
        let content = StoredContent(data: files[name], version: try version(of: name))
        await readDoors.removeValue(forKey: name)?.pass()
        return content
    }

    func version(of name: String) throws -> StorageVersion {
        if isLocked { throw CocoaError(.fileReadNoPermission) }
        return files[name] == nil ? .nothing : StorageVersion(rawValue: "\(changes[name] ?? 0)")
    }

    func save(
        _ change: StorageChange, as name: String, over version: StorageVersion
    ) async throws -> StorageVersion? {
        await door?.pass()
        if isLocked { throw CocoaError(.fileWriteNoPermission) }
        if isFullOnce {
            isFullOnce = false
            throw CocoaError(.fileWriteOutOfSpace)
        }
        if isFull || broken.contains(name) { throw CocoaError(.fileWriteOutOfSpace) }
        guard try self.version(of: name) == version else { return nil }
        switch change {
        case .replace(let data):
            put(data, as: name)
            replacements[name, default: 0] += 1
        case .append(let lines): put((files[name] ?? Data()) + lines, as: name)
        }
        written += change.data.count
        return try self.version(of: name)
    }

    func setAside(_ name: String) {
        files[name] = nil
        aside.append(name)
    }
}
