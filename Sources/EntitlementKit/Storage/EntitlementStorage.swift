public import Foundation

/// Which state of a name's content somebody has read or written; equal ones stand for equal content.
public struct StorageVersion: RawRepresentable, Sendable, Hashable {
    /// Of whatever form the storage gives it.
    public let rawValue: String

    /// Takes what a storage made.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Nothing has been written under the name.
    public static let nothing = StorageVersion(rawValue: "")
}

/// What a name holds.
public struct StoredContent: Sendable, Hashable {
    /// `nil` where nothing was written.
    public let data: Data?
    /// The version that this is.
    public let version: StorageVersion

    /// Puts one together from its parts.
    public init(data: Data?, version: StorageVersion) {
        self.data = data
        self.version = version
    }
}

/// How a name's content is to change.
public enum StorageChange: Sendable, Hashable {
    /// The new content in the old one's place, all or nothing.
    case replace(Data)
    /// Whole lines behind the old content; where a crash cut the last line off, they begin on another one.
    case append(Data)

    /// What is to be written.
    public var data: Data {
        switch self {
        case .replace(let data), .append(let data): data
        }
    }
}

/// Where an ``EntitlementStore`` keeps what must survive a restart and a crash.
///
/// Several stores may share one, such as those of an app and of its extensions: nobody's change replaces what they have not
/// seen, because it names the version that it was made from.
public protocol EntitlementStorage: Sendable {
    /// What was last saved under a name.
    ///
    /// - Throws: where it cannot be read now, as before a device is first unlocked; it must not be overwritten then.
    func read(_ name: String) async throws -> StoredContent
    /// The version of what a name holds.
    ///
    /// - Throws: as ``read(_:)``.
    func version(of name: String) async throws -> StorageVersion
    /// Changes what a name holds, durable when it returns.
    ///
    /// - Parameters:
    ///   - change: what is to be written.
    ///   - name: the file's.
    ///   - version: what the name has to hold for it.
    /// - Returns: what the name holds now; `nil` where it held something else than `version`, and nothing was changed.
    func save(
        _ change: StorageChange, as name: String, over version: StorageVersion
    ) async throws -> StorageVersion?
    /// Moves what a name holds out of the way, since it cannot be understood.
    func setAside(_ name: String) async
}

/// What is in memory is all there is: for previews and tests, where keeping the value is keeping the disk.
public actor InMemoryEntitlementStorage: EntitlementStorage {
    private var contents: [String: Data]
    private var changes: [String: Int] = [:]

    /// Begins with what is given.
    public init(_ contents: [String: Data] = [:]) { self.contents = contents }

    /// What a name holds.
    public func read(_ name: String) -> StoredContent {
        StoredContent(data: contents[name], version: version(of: name))
    }

    /// Counts the changes of a name.
    public func version(of name: String) -> StorageVersion {
        contents[name] == nil ? .nothing : StorageVersion(rawValue: "\(changes[name] ?? 0)")
    }

    /// Changes what a name holds.
    public func save(_ change: StorageChange, as name: String, over version: StorageVersion) -> StorageVersion? {
        guard version == self.version(of: name) else { return nil }
        switch change {
        case .replace(let data): contents[name] = data
        case .append(let lines): contents[name, default: Data()].append(lines)
        }
        changes[name, default: 0] += 1
        return self.version(of: name)
    }

    /// Keeps what a name holds under another name.
    public func setAside(_ name: String) { contents[name + ".unreadable"] = contents.removeValue(forKey: name) }
}
