import Foundation
import StoreSimulator

/// Where a demonstration keeps its authority, and how far it has come.
struct DemoDirectory: Sendable {
    let path: String

    init(_ path: String) { self.path = path }

    /// The authority; a new one where none is.
    func authority() throws -> SimulatedAuthority {
        do {
            return try SimulatedAuthority.kept(in: path)
        } catch {
            throw PlayError(description: "the certificate authority in \(path) cannot be read or made: \(error)")
        }
    }

    /// The file to trust.
    func rootCertificatePath() throws -> String {
        _ = try authority()
        return "\(path)/\(SimulatedAuthority.rootCertificateFile)"
    }

    /// The instant the story leads up to: that of the first attempt, so that one that was cut short is repeated
    /// word for word.
    func storyInstant(now: Int64) throws -> Int64 {
        let file = "\(path)/demo.instant"
        if let text = try? String(contentsOfFile: file, encoding: .utf8),
            let instant = Int64(text.trimmingCharacters(in: .whitespacesAndNewlines))
        {
            return instant
        }
        try write("\(now)\n", to: file)
        return now
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
