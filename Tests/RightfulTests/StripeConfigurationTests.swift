import EntitlementCore
import Foundation
import Service
import Testing

@testable import rightful

@Suite("Configuration of Stripe")
struct StripeConfigurationTests {
    private static func read(_ stripe: String, at path: String = "/etc/rightful/config.json") throws -> Configuration {
        try Configuration(
            ConfigurationInput(file: (path: path, content: Array("{\"stripe\": \(stripe)}".utf8))))
    }

    private static let complete: [String: String] = [
        "environment": #""sandbox""#, "secret_key_path": #""key""#, "webhook_secret_paths": #"["webhook"]"#,
        "success_url": #""https://example.com/thanks?session={CHECKOUT_SESSION_ID}""#,
        "cancel_url": #""https://example.com/plans""#,
    ]

    /// An account with one member changed, or left out.
    private static func account(_ name: String, _ value: String?) -> String {
        var members = complete
        members[name] = value
        return "{" + members.sorted { $0.key < $1.key }.map { "\"\($0.key)\": \($0.value)" }.joined(separator: ",")
            + "}"
    }

    @Test("an account is read, its paths relative to the file, and shown without what its files hold")
    func accounts() throws {
        let configuration = try Self.read(
            "[\(Self.account("base_url", #""http://127.0.0.1:12111/""#)),"
                + "\(Self.account("environment", #""production""#))]")
        let account = try #require(configuration.stripe.first)
        #expect(account.environment == .sandbox && configuration.stripe.last?.environment == .production)
        #expect(account.secretKeyPath == "/etc/rightful/key")
        #expect(account.webhookSecretPaths == ["/etc/rightful/webhook"])
        #expect(account.baseURL == "http://127.0.0.1:12111")
        #expect(account.successURL == "https://example.com/thanks?session={CHECKOUT_SESSION_ID}")
        let shown = configuration.report.first { $0.key == "stripe" }?.value
        #expect(shown == "sandbox (1 webhook secret), production (1 webhook secret)")
        #expect(try Self.read("[]").report.first { $0.key == "stripe" }?.value == "none")
    }

    @Test(
        "what is wrong with an account is said by name",
        arguments: [
            ("environment", nil, "is missing"), ("environment", #""live""#, "must be production"),
            ("secret_key_path", nil, "is missing"), ("webhook_secret_paths", nil, "is missing"),
            ("webhook_secret_paths", "[]", "at least one file"),
            ("webhook_secret_paths", #"["a","a"]"#, "is listed twice"),
            ("webhook_secret_paths", #"["1","2","3","4","5","6","7","8","9"]"#, "at most 8"),
            ("success_url", nil, "is missing"), ("success_url", #""example.com""#, "https:// address"),
            ("success_url", #""http://example.com""#, "plain http"),
            ("cancel_url", #""https://x/{A}""#, "https:// address"),
            ("base_url", #""https://api.example/v1""#, "without path"), ("key", #""sk_live_1""#, "is not a known key"),
        ] as [(String, String?, String)])
    func mistakes(name: String, value: String?, problem: String) {
        do {
            _ = try Self.read("[\(Self.account(name, value))]")
            Issue.record("\(name) = \(value ?? "nothing") was taken")
        } catch {
            let text = "\(error)"
            #expect(text.contains("stripe[0].\(name)") && text.contains(problem), "\(text)")
            #expect(!text.contains("sk_live_1"))
        }
    }

    @Test("an environment has one account")
    func repeated() {
        let account = Self.account("environment", #""sandbox""#)
        #expect(
            throws: ConfigurationError(
                "stripe[1].environment", .file("/etc/rightful/config.json"), "sandbox is listed twice")
        ) {
            try Self.read("[\(account),\(account)]")
        }
    }

    /// What reading the files says, in a directory of their own.
    private static func files(key: String, secrets: [String], environment: String = "sandbox") throws -> StripeFiles {
        let directory = FileManager.default.temporaryDirectory.appending(path: "stripe-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        func write(_ text: String, to name: String) throws {
            let path = directory.appending(path: name).path
            _ = FileManager.default.createFile(
                atPath: path, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        }
        try write(key, to: "key")
        for (index, secret) in secrets.enumerated() { try write(secret, to: "\(index)") }
        var members = complete
        members["environment"] = "\"\(environment)\""
        members["webhook_secret_paths"] = "[\(secrets.indices.map { "\"\($0)\"" }.joined(separator: ","))]"
        let text = members.sorted { $0.key < $1.key }.map { "\"\($0.key)\": \($0.value)" }.joined(separator: ",")
        return try StripeFiles(read("[{\(text)}]", at: directory.appending(path: "config.json").path))
    }

    @Test("the files hold one secret each, with or without a line's end")
    func secrets() throws {
        #expect(try !Self.files(key: "sk_test_1\n", secrets: ["whsec_1\n", "whsec_2"]).webhooks.isEmpty)
        #expect(try Self.files(key: "rk_live_1", secrets: ["whsec_1"], environment: "production").warnings == [])
    }

    @Test(
        "a file that holds something else is refused by its path, and never quoted",
        arguments: [
            ("sk_live_1", ["whsec_1"], "live mode"), ("pk_test_1", ["whsec_1"], "no secret or restricted key"),
            ("", ["whsec_1"], "is empty"), ("sk_test_1", ["sk_test_1"], "whsec_"),
            ("sk_test_1", ["whsec_1", "whsec_1"], "the same secret"), ("sk_test_1", ["whsec_"], "whsec_"),
        ] as [(String, [String], String)])
    func otherContents(key: String, secrets: [String], problem: String) {
        do {
            _ = try Self.files(key: key, secrets: secrets)
            Issue.record("\(key) and \(secrets) were taken")
        } catch {
            let text = "\(error)"
            #expect(text.contains(problem) && error is ConfigurationError, "\(text)")
            for secret in [key] + secrets where secret.count > 6 { #expect(!text.contains(secret), "\(text)") }
        }
    }
}
