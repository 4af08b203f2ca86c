import EntitlementCore
import Foundation
import Ledger
import Testing

@testable import rightful

@Suite("The file with the keys of customer tokens", .timeLimit(.minutes(1)))
struct TokenKeyFileTests {
    private static let noon = Timestamp(milliseconds: Int64(1_800_000_000_000))

    private static func withDirectory(_ body: (String) async throws -> Void) async throws {
        let directory = NSTemporaryDirectory() + "token-keys-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try await body(directory)
    }

    @Test("keys are added one after the other, for their owner alone, and read as they were made")
    func keys() async throws {
        try await Self.withDirectory { directory in
            let file = TokenKeyFile(path: directory + "/tokens")
            #expect(try await file.read().isEmpty)
            let first = try await file.rotate(now: Self.noon, endsEarlier: false)
            let second = try await file.rotate(now: Self.noon.adding(milliseconds: 5), endsEarlier: true)
            #expect([first.id, second.id] == [1, 2] && !first.isAlone && second.isAlone)
            #expect(try await file.read() == [first, second])
            let text = try String(contentsOfFile: file.path, encoding: .utf8)
            let edited = TokenKeyFile(path: directory + "/edited")
            try text.replacing("\n", with: "\r\n").write(toFile: edited.path, atomically: true, encoding: .utf8)
            #expect(try await edited.read() == [first, second], "as an editor of Windows saves it")
            try FileManager.default.removeItem(atPath: edited.path)
            #expect(file.warning == nil)
            let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? NSNumber
            #expect(mode?.intValue == 0o600)
            chmod(file.path, 0o640)
            #expect(file.warning?.contains("chmod it to 600") == true)
            let made = try await withThrowingTaskGroup(of: Int64.self) { group in
                for _ in 0..<8 { group.addTask { try await file.rotate(now: Self.noon, endsEarlier: false).id } }
                return try await group.reduce(into: Set<Int64>()) { $0.insert($1) }
            }
            #expect(made == Set(3...10))
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["tokens"])
        }
    }

    @Test("services with the same file take each other's tokens, and others do not")
    func services() async throws {
        try await Self.withDirectory { directory in
            let token = CustomerTokenClaims(
                customerID: try #require(CustomerID("c-1")), environment: .sandbox, bundleID: nil, issuedAt: Self.noon,
                expiresAt: Self.noon.adding(milliseconds: 60_000))
            let (one, other) = (TokenKeyFile(path: directory + "/a"), TokenKeyFile(path: directory + "/b"))
            let text = try await CustomerTokens(keys: one).make(token)
            #expect(try await CustomerTokens(keys: one).verify(text, now: Self.noon) == .valid(token))
            #expect(try await CustomerTokens(keys: other).verify(text, now: Self.noon) == .forged)
        }
    }

    @Test("what is no key is an error that names the line, and never what it says")
    func damaged() async throws {
        try await Self.withDirectory { directory in
            let file = TokenKeyFile(path: directory + "/tokens")
            let good = "1 2026-01-01T00:00:00.000Z " + String(repeating: "A", count: 43) + "\n"
            for bad in ["secret", "2 today AAAA", "2 2026-01-01T00:00:00.000Z QUJD", good.dropLast() + " together"] {
                try (good + bad).write(toFile: file.path, atomically: true, encoding: .utf8)
                let error = await #expect(throws: LedgerError.self) { try await file.read() }
                #expect(error?.description.contains("line 2 is no key") == true, "\(bad)")
                #expect(error?.description.contains("QUJD") == false)
            }
        }
    }
}
