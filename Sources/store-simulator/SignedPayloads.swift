import Foundation
import StoreSimulator
import Synchronization

/// What the store signed for each notification, kept in a file: what arrives again is the same bytes, also after a restart.
///
/// A line each: the notification's UUID, and its `signedPayload`.
final class SignedPayloads: Sendable {
    private let authority: SimulatedAuthority
    private let file: String
    private let state: Mutex<(known: [String: String], handle: FileHandle)>

    init(_ file: String, _ authority: SimulatedAuthority) throws {
        self.authority = authority
        self.file = file
        var known: [String: String] = [:]
        var length = 0
        if let data = FileManager.default.contents(atPath: file) {
            // Whoever was killed may have left half a line.
            length = data.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
            for line in data.prefix(length).split(separator: UInt8(ascii: "\n")) {
                let parts = line.split(separator: UInt8(ascii: " "), maxSplits: 1)
                guard parts.count == 2 else { continue }
                known[String(decoding: parts[0], as: UTF8.self)] = String(decoding: parts[1], as: UTF8.self)
            }
        } else {
            _ = FileManager.default.createFile(atPath: file, contents: nil)
        }
        guard let handle = FileHandle(forUpdatingAtPath: file) else {
            throw PlayError(description: "\(file) cannot be written")
        }
        try handle.truncate(atOffset: UInt64(length))
        try handle.seekToEnd()
        state = Mutex((known, handle))
    }

    /// What the store signed; it is kept before anybody hears of it.
    func payload(of notification: StoreNotification) throws -> String {
        try state.withLock { state in
            if let known = state.known[notification.uuid] { return known }
            let payload = try authority.sign(notification)
            do {
                try state.handle.write(contentsOf: Data("\(notification.uuid) \(payload)\n".utf8))
            } catch {
                throw PlayError(description: "\(file) cannot be written: \(error.localizedDescription)")
            }
            state.known[notification.uuid] = payload
            return payload
        }
    }
}
