import Foundation
import StoreSimulator

/// The simulated Stripe of the demo, which `store-simulator stripe` serves from the same directory.
struct DemoShop {
    let webhookSecret: String
    /// Where it is served.
    let url: String
    private let key: String
    private let client: StoreClient
    private let isPlayed: Bool

    /// - Parameter url: where it is served.
    init(_ directory: DemoDirectory, url: String) throws {
        self.url = url
        client = try StoreClient(url: url)
        key = try Self.kept(StripeCommand.keyFile, in: directory)
        webhookSecret = try Self.kept(StripeCommand.webhookSecretFile, in: directory)
        isPlayed = directory.isPlayed
    }

    private static func kept(_ name: String, in directory: DemoDirectory) throws -> String {
        let path = "\(directory.path)/\(name)"
        guard let text = try? String(contentsOfFile: path, encoding: .utf8) else {
            throw PlayError(description: "\(path) cannot be read; `store-simulator stripe` makes it")
        }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Lets it deliver what happens from now on, and know what happened before.
    func open(deliveringTo service: URL) async throws {
        let endpoint = service.appending(path: "v1/notifications/stripe").absoluteString
        try await client.post(
            "v1/webhook_endpoints", authorization: "Bearer \(key)", form: "url=\(endpoint)&enabled_events[0]=*")
        if isPlayed { try await begin() }
    }

    /// Lets it know what the demo tells of.
    func begin() async throws { try await client.post("demo") }
}
