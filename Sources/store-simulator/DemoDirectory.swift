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

    /// The instant the story leads up to: that of the first attempt.
    private func storyInstant(now: Int64) throws -> Int64 {
        let file = "\(path)/demo.instant"
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
        let file = "\(path)/demo.signed"
        if let text = try? String(contentsOfFile: file, encoding: .utf8) {
            let lines = text.split(separator: "\n").map(String.init)
            if lines.count == steps.count { return Array(zip(steps, lines)) }
        }
        let payloads = try steps.map { try authority.sign($0.notification) }
        try write(payloads.joined(separator: "\n"), to: file)
        return Array(zip(steps, payloads))
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
