public import Foundation

/// Files in one directory, each replaced as a whole.
///
/// An actor of its own, so that a slow disk keeps nobody else waiting.
public actor FileEntitlementStorage: EntitlementStorage {
    /// A file that is larger was not written by this, in bytes.
    static let sizeLimit = 32 << 20

    private let directory: URL

    /// Keeps files in a directory, which is made when first written to.
    public init(directory: URL) { self.directory = directory }

    /// The place for it: `Application Support/EntitlementKit` of the app.
    public static func standardDirectory() -> URL {
        let files = FileManager.default
        let support = files.urls(for: .applicationSupportDirectory, in: .userDomainMask).first
        return (support ?? files.temporaryDirectory).appendingPathComponent("EntitlementKit", isDirectory: true)
    }

    /// What a file holds; `nil` where there is none.
    public func read(_ name: String) throws -> Data? {
        let file = url(of: name)
        let attributes: [FileAttributeKey: Any]
        do {
            attributes = try FileManager.default.attributesOfItem(atPath: file.path)
        } catch CocoaError.fileReadNoSuchFile, CocoaError.fileNoSuchFile {
            return nil
        }
        if let size = attributes[.size] as? NSNumber, size.intValue > Self.sizeLimit {
            throw CocoaError(.fileReadTooLarge)
        }
        return try Data(contentsOf: file)
    }

    /// Replaces a file by way of a draft that has reached the disk.
    public func write(_ data: Data, as name: String) throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let target = url(of: name)
        let draft = url(of: name + ".new")
        // A leftover of a crash; writing over it would keep what is longer than the new content.
        try? FileManager.default.removeItem(at: draft)
        guard FileManager.default.createFile(atPath: draft.path, contents: nil) else {
            throw CocoaError(.fileWriteUnknown)
        }
        let handle = try FileHandle(forWritingTo: draft)
        do {
            try handle.write(contentsOf: data)
            // Only what has reached the disk may take the old content's place.
            try handle.synchronize()
            try handle.close()
        } catch {
            try? handle.close()
            throw error
        }
        guard rename(draft.path, target.path) == 0 else { throw CocoaError(.fileWriteUnknown) }
    }

    /// Renames a file, for people to look at.
    public func setAside(_ name: String) {
        let aside = url(of: name + ".unreadable")
        try? FileManager.default.removeItem(at: aside)
        try? FileManager.default.moveItem(at: url(of: name), to: aside)
    }

    private func url(of name: String) -> URL { directory.appendingPathComponent(name, isDirectory: false) }
}
