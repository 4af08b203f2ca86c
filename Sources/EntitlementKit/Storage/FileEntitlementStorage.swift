public import Foundation

/// Files in one directory, which several processes may share.
///
/// Reading takes no lock and changes nothing, so that whoever may only read can do so. Whoever writes holds a lock of the
/// directory, from the look at what is there until the change has reached the disk. In an App Group's directory the system is
/// asked not to suspend the process meanwhile, and where it is about to, nothing is written.
public actor FileEntitlementStorage: EntitlementStorage {
    /// The most bytes of one file: a larger one is neither written nor read.
    static let sizeLimit = 32 << 20

    private let directory: URL
    /// Where the files were before; `nil`: nowhere else.
    private let former: URL?
    private var moving: Task<Void, Never>?
    private var isMoved = false
    private var moveFailure: (any Error)?
    /// `nil` where nobody minds that a process is suspended with the lock: an app's own files, and other systems.
    private let activity: ExpiringActivity?

    /// Keeps files in a directory, which is made when first written to.
    ///
    /// An app whose extensions and widgets read along passes a directory of their App Group:
    ///
    ///     let group = FileManager.default.containerURL(forSecurityApplicationGroupIdentifier: "group.com.example.app")
    ///
    /// It is `nil` for a group that is misspelt, or missing among the app's entitlements.
    ///
    /// - Parameters:
    ///   - directory: where they are kept.
    ///   - former: a directory whose files are moved to this one before anything is read, such as the
    ///     ``standardDirectory(bundleID:)`` of a version of the app that had no App Group yet; `nil`: nothing is moved. Where this one
    ///     has such files already, as of an extension that was launched first, both are joined; who is logged in is what this
    ///     one says. Files that cannot be moved now, as on a full disk, are used where they are, and it is tried again whenever
    ///     they are used.
    public init(directory: URL, movingFrom former: URL? = nil) {
        let isOfApp = directory.standardizedFileURL.path.hasPrefix(NSHomeDirectory() + "/")
        self.init(directory: directory, isOfApp ? nil : .ofSystem, movingFrom: former)
    }

    init(directory: URL, _ activity: ExpiringActivity?, movingFrom former: URL? = nil) {
        self.directory = directory
        self.activity = activity
        self.former = former?.standardizedFileURL == directory.standardizedFileURL ? nil : former
    }

    /// The place for an app's files: a directory of its own in `Application Support`, since the apps of one developer may
    /// share that; in `Caches` on tvOS, which has no other.
    ///
    /// tvOS empties `Caches` when it needs room. Nothing is lost by that but time: store and server tell everything again,
    /// and your app says again who is logged in.
    public static func standardDirectory(bundleID: String) -> URL {
        #if os(tvOS)
        standardDirectory(bundleID: bundleID, place: .cachesDirectory)
        #else
        standardDirectory(bundleID: bundleID, place: .applicationSupportDirectory)
        #endif
    }

    static func standardDirectory(bundleID: String, place: FileManager.SearchPathDirectory) -> URL {
        let files = FileManager.default
        let parent = files.urls(for: place, in: .userDomainMask).first ?? files.temporaryDirectory
        let allowed = CharacterSet.alphanumerics.union(CharacterSet(charactersIn: ".-_"))
        let name = bundleID.addingPercentEncoding(withAllowedCharacters: allowed) ?? "app"
        return parent.appendingPathComponent("EntitlementKit", isDirectory: true)
            .appendingPathComponent(name.hasPrefix(".") ? "_" + name : name, isDirectory: true)
    }

    /// The files of an app's store: in a directory, to which an update of the app moves what is in the app's own place; there,
    /// where it is `nil`.
    static func ofApp(_ bundleID: String, directory: URL?) -> FileEntitlementStorage {
        let own = standardDirectory(bundleID: bundleID)
        return FileEntitlementStorage(directory: directory ?? own, movingFrom: own)
    }

    // MARK: Reading

    /// What a file holds.
    public func read(_ name: String) async throws -> StoredContent {
        await moveIn()
        guard let file = try OpenFile(path: path(name), flags: O_RDONLY) else {
            return StoredContent(data: nil, version: .nothing)
        }
        // What somebody appends meanwhile is the next version.
        let state = try file.state()
        guard state.size <= Self.sizeLimit else { throw CocoaError(.fileReadTooLarge) }
        return StoredContent(data: try file.read(state.size), version: state.version)
    }

    /// The file's number, size and time of its last change.
    public func version(of name: String) async throws -> StorageVersion {
        await moveIn()
        return try OpenFile(path: path(name), flags: O_RDONLY)?.state().version ?? .nothing
    }

    // MARK: Writing

    /// Changes a file: by way of a draft that has reached the disk, or by lines at its end.
    public func save(
        _ change: StorageChange, as name: String, over version: StorageVersion
    ) async throws -> StorageVersion? {
        await moveIn()
        let place = place(of: name)
        return try await locked([place]) {
            // It may have been moved meanwhile.
            self.place(of: name) == place ? try saveAlone(change, as: name, over: version) : nil
        }
    }

    /// Does something that no other process does at the same time in any of these directories.
    private func locked<Answer>(_ places: [URL], _ body: () throws -> Answer) async throws -> Answer {
        for _ in 0..<Self.lockAttempts {
            let attempt =
                if let activity {
                    try await activity.run { try tryLocked(places[...], body) }
                } else {
                    try tryLocked(places[...], body)
                }
            if case .done(let answer) = attempt { return answer }
            try? await Task.sleep(for: .milliseconds(5))
        }
        throw CocoaError(.fileLocking)
    }

    /// How often it is tried to have the lock, five milliseconds apart: nobody holds it for longer than a write.
    private static let lockAttempts = 1000

    private enum Attempt<Answer> {
        /// Somebody else has the lock.
        case locked
        case done(Answer)
    }

    private func tryLocked<Answer>(_ places: ArraySlice<URL>, _ body: () throws -> Answer) throws -> Attempt<Answer> {
        guard let place = places.first else { return .done(try body()) }
        try FileManager.default.createDirectory(
            at: place, withIntermediateDirectories: true, attributes: Self.protection)
        guard let lock = try FileLock(path: Self.path("lock", in: place)) else { return .locked }
        defer { withExtendedLifetime(lock) {} }
        return try tryLocked(places.dropFirst(), body)
    }

    /// Changes a file, with the lock; `nil` where it held another version.
    private func saveAlone(
        _ change: StorageChange, as name: String, over version: StorageVersion
    ) throws -> StorageVersion? {
        guard let present = try OpenFile(path: path(name), flags: O_RDWR | O_APPEND) else {
            return version == .nothing ? try replace(path(name), by: change.data) : nil
        }
        guard try present.state().version == version else { return nil }
        switch change {
        case .append(let lines): return try append(lines, to: present)
        case .replace(let data): return try replace(path(name), by: data)
        }
    }

    private func append(_ lines: Data, to file: borrowing OpenFile) throws -> StorageVersion {
        let size = try file.state().size
        var lines = lines
        // A crash may have cut the last line off, and nothing is to be joined to it.
        if size > 0, try file.lastByte(of: size) != UInt8(ascii: "\n") { lines.insert(UInt8(ascii: "\n"), at: 0) }
        guard size + lines.count <= Self.sizeLimit else { throw CocoaError(.fileWriteOutOfSpace) }
        do {
            try file.write(lines)
            try file.synchronize()
        } catch {
            file.truncate(to: size)
            throw error
        }
        return try file.state().version
    }

    private func replace(_ path: String, by data: Data) throws -> StorageVersion {
        guard data.count <= Self.sizeLimit else { throw CocoaError(.fileWriteOutOfSpace) }
        let draft = path + ".new"
        // A leftover of a crash; writing over it would keep what is longer than the new content.
        unlink(draft)
        guard FileManager.default.createFile(atPath: draft, contents: nil, attributes: Self.protection),
            let file = try OpenFile(path: draft, flags: O_RDWR)
        else { throw CocoaError(.fileWriteUnknown) }
        try file.write(data)
        // Only what has reached the disk may take the old content's place.
        try file.synchronize()
        guard rename(draft, path) == 0 else { throw POSIXError(.current) }
        try synchronize(URL(fileURLWithPath: path).deletingLastPathComponent())
        return try file.state().version
    }

    // MARK: Moving in

    /// Tries to bring the files here; where that cannot be done now, they are used where they are.
    private func moveIn() async {
        guard let former, !isMoved else { return }
        let move = moving ?? Task { await tryToMove(from: former) }
        moving = move
        await move.value
    }

    private func tryToMove(from former: URL) async {
        do {
            try await moveFiles(from: former)
            isMoved = true
        } catch {
            moveFailure = error
        }
        moving = nil
    }

    /// Why files are used where they were before, if they are.
    var failureToMove: (any Error)? { isMoved ? nil : moveFailure }

    private func moveFiles(from former: URL) async throws {
        // A process that ends in the middle leaves the rest for another one.
        let left = DiskState.File.allCases.filter { isThere(Self.path($0.rawValue, in: former)) }
        guard !left.isEmpty else { return }
        try await locked([directory, former]) {
            for file in left { try moveFile(file, from: former) }
            try synchronize(directory)
        }
    }

    private func moveFile(_ file: DiskState.File, from former: URL) throws {
        let (source, target) = (Self.path(file.rawValue, in: former), Self.path(file.rawValue, in: directory))
        let present = try content(target)
        if present == nil, rename(source, target) == 0 { return }
        // It went meanwhile, or lies on another volume.
        guard let old = try content(source) else { return }
        guard let joined = present.map({ file.joined($0, former: old) }) ?? old else {
            _ = rename(source, source + ".unreadable")
            return
        }
        _ = try replace(target, by: joined)
        unlink(source)
    }

    private func content(_ path: String) throws -> Data? {
        guard let file = try OpenFile(path: path, flags: O_RDONLY) else { return nil }
        return try file.read(try file.state().size)
    }

    private func isThere(_ path: String) -> Bool { access(path, F_OK) == 0 }

    private func synchronize(_ directory: URL) throws {
        try OpenFile(path: directory.path, flags: O_RDONLY)?.synchronize()
    }

    /// Renames a file, for people to look at.
    public func setAside(_ name: String) {
        let path = path(name)
        _ = rename(path, path + ".unreadable")
    }

    private func path(_ name: String) -> String { Self.path(name, in: place(of: name)) }

    private static func path(_ name: String, in directory: URL) -> String {
        directory.appendingPathComponent(name, isDirectory: false).path
    }

    /// Where a file is: in the former place, as long as it could not be moved from there.
    private func place(of name: String) -> URL {
        guard let former, !isMoved, !isThere(Self.path(name, in: directory)) else { return directory }
        return former
    }

    /// Readable whenever the device was unlocked once since it was started, so that a launch in the background can read.
    private static var protection: [FileAttributeKey: Any] {
        #if os(iOS) || os(tvOS) || os(watchOS) || os(visionOS)
        [.protectionKey: FileProtectionType.completeUntilFirstUserAuthentication]
        #else
        [:]
        #endif
    }
}
