import Foundation
import OpenSSLCrypto
import StoreSimulator

/// Where a demonstration keeps its authority, and how far it has come.
struct DemoDirectory: Sendable {
    let path: String

    init(_ path: String) { self.path = path }

    /// The authority that is kept here.
    ///
    /// - Throws: `PlayError` where none is: a new one would sign what nobody trusts.
    func authority() throws -> SimulatedAuthority {
        guard FileManager.default.fileExists(atPath: rootCertificate) else {
            throw PlayError(
                description: "there is no certificate authority in \(path); make one with "
                    + "`store-simulator authority --data \(path)`, and let the service trust its root")
        }
        do {
            return try SimulatedAuthority(directory: path)
        } catch {
            throw PlayError(description: "the certificate authority in \(path) cannot be read: \(error)")
        }
    }

    /// The file to trust; the authority is made where none is.
    func makeAuthority() throws -> String {
        do {
            _ = try SimulatedAuthority.kept(in: path)
        } catch {
            throw PlayError(description: "the certificate authority in \(path) cannot be read or made: \(error)")
        }
        return rootCertificate
    }

    private var rootCertificate: String { "\(path)/\(SimulatedAuthority.rootCertificateFile)" }

    /// The instant the story leads up to: that of the first attempt.
    func storyInstant(now: Int64) throws -> Int64 { try instant("demo.instant", now: now) }

    /// The instant up to which the lives go that are served: that of the first start.
    func servedInstant(now: Int64) throws -> Int64 { try instant("serve.instant", now: now) }

    /// The key of whoever may ask the store's API, and the path of its file; a new one where none is.
    func apiKey() throws -> (key: PrivateKey, path: String) {
        let file = "\(path)/app-store-api.p8"
        if FileManager.default.fileExists(atPath: file) {
            return (try PrivateKey(pem: String(contentsOfFile: file, encoding: .utf8)), file)
        }
        let key = try PrivateKey.generate(.p256)
        let isWritten = FileManager.default.createFile(
            atPath: file, contents: Data(try key.pem().utf8), attributes: [.posixPermissions: 0o600])
        if !isWritten { throw PlayError(description: "\(file) cannot be written") }
        return (key, file)
    }

    private func instant(_ name: String, now: Int64) throws -> Int64 {
        let file = "\(path)/\(name)"
        if let text = try? String(contentsOfFile: file, encoding: .utf8),
            let instant = Int64(text.trimmingCharacters(in: .whitespacesAndNewlines))
        {
            return instant
        }
        try write("\(now)\n", to: file)
        return now
    }

    /// The story's steps, and what the store signed for each.
    ///
    /// A demonstration that was cut short is repeated byte for byte, so that nothing is told twice.
    func story(_ authority: SimulatedAuthority, now: Int64) throws -> [(step: DemoStory.Step, payload: String)] {
        let steps = DemoStory(now: try storyInstant(now: now)).steps
        return Array(zip(steps, try signed("demo.signed", steps.map(\.notification), authority)))
    }

    /// What the store signed for notifications, kept in a file.
    func signed(
        _ name: String, _ notifications: [StoreNotification], _ authority: SimulatedAuthority
    ) throws -> [String] {
        let file = "\(path)/\(name)"
        if let text = try? String(contentsOfFile: file, encoding: .utf8) {
            let lines = text.split(separator: "\n").map(String.init)
            if lines.count == notifications.count { return lines }
        }
        let payloads = try notifications.map { try authority.sign($0) }
        try write(payloads.joined(separator: "\n"), to: file)
        return payloads
    }

    var isPlayed: Bool { FileManager.default.fileExists(atPath: "\(path)/demo.played") }

    func markPlayed() throws { try write("", to: "\(path)/demo.played") }

    private func write(_ text: String, to file: String) throws {
        do {
            try Data(text.utf8).write(to: URL(fileURLWithPath: file), options: .atomic)
        } catch {
            throw PlayError(description: "\(file) cannot be written: \(error.localizedDescription)")
        }
    }
}
