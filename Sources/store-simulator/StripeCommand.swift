import Foundation
import HTTPServer
import StoreSimulator

/// Serves one mode of a simulated Stripe account, with pages on which somebody buys, and delivers its webhooks.
struct StripeCommand: Sendable {
    /// Between looks whether something is due.
    private static let rest = Duration.milliseconds(250)

    /// Where the secrets are kept, beneath the directory.
    static let (keyFile, webhookSecretFile) = ("stripe-secret-key", "stripe-webhook-secret")

    private let directory: String
    private let environment: SimulatedStoreEnvironment
    private let port: UInt16
    private let service: StripePostman.Endpoint?
    private let periodMinutes: Int
    private let faults: Int

    init(_ arguments: inout Arguments) throws {
        directory = try arguments.required("--data")
        let mode = arguments.optional("--environment") ?? "sandbox"
        guard let environment = SimulatedStoreEnvironment(rawValue: mode) else {
            throw SimulatorUsageError("--environment must be production or sandbox")
        }
        self.environment = environment
        port = UInt16(try arguments.number("--port", in: 0...65_535, default: 8087))
        service = try arguments.optional("--url").map { try StripePostman.Endpoint($0) }
        periodMinutes = try arguments.number("--period-minutes", in: 0...1_000_000, default: 0)
        faults = try arguments.number("--faults", in: 0...100, default: 0)
    }

    func run() async throws {
        let key = try kept(Self.keyFile, environment == .production ? "sk_live_" : "sk_test_")
        let secret = try kept(Self.webhookSecretFile, "whsec_")
        let place = Place()
        // Ids of one start never meet those of another: nothing is kept of an account.
        let seed = UInt64(StoreSimulatorProgram.currentMilliseconds())
        let stripe = SimulatedStripe(
            environment, key: key.secret, shop: SimulatedShop.all(periodMinutes: periodMinutes), seed: seed,
            pages: { place.url }, now: { StoreSimulatorProgram.currentMilliseconds() })
        if faults > 0 { stripe.failAtRandom(percent: faults, seed: seed) }
        let postman = StripePostman(stripe, to: service, secret: secret.secret)
        let pages = StripePages(stripe, postman, DemoDirectory(directory))
        let server = stripe.makeServer(port: port) { request in await pages.answer(request) }
        do {
            try server.start()
        } catch {
            throw PlayError(description: "the simulated Stripe cannot be served: \(error)")
        }
        place.set("http://127.0.0.1:\(server.boundPort ?? 0)")
        let entry: PayloadValue = .object([
            "environment": .string(environment.rawValue), "secret_key_path": .string(key.path),
            "webhook_secret_paths": .array([.string(secret.path)]), "base_url": .string(place.url),
            "success_url": .string("\(place.url)/thanks?session={CHECKOUT_SESSION_ID}"),
            "cancel_url": .string("\(place.url)/"),
        ])
        say(String(decoding: entry.json, as: UTF8.self))
        say("The simulated Stripe is at \(place.url)/ until Ctrl-C")
        while !Task.isCancelled {
            stripe.tick()
            await postman.deliver()
            try await Task.sleep(for: Self.rest)
        }
        await server.stop(graceSeconds: 0)
    }

    /// A secret that is kept in a file, which is made where it is not there.
    private func kept(_ name: String, _ prefix: String) throws -> (secret: String, path: String) {
        let path = "\(directory)/\(name)"
        let absolute = URL(filePath: path).path(percentEncoded: false)
        if let text = try? String(contentsOfFile: path, encoding: .utf8) {
            let secret = text.trimmingCharacters(in: .whitespacesAndNewlines)
            guard secret.hasPrefix(prefix) else {
                throw PlayError(
                    description: "\(path) holds nothing that begins with \(prefix); remove it to have another made")
            }
            return (secret, absolute)
        }
        let secret = prefix + "simulated" + UUID().uuidString.replacing("-", with: "").lowercased()
        do {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        } catch {
            throw PlayError(description: "\(directory) cannot be made: \(error.localizedDescription)")
        }
        let isWritten = FileManager.default.createFile(
            atPath: path, contents: Data("\(secret)\n".utf8), attributes: [.posixPermissions: 0o600])
        guard isWritten else { throw PlayError(description: "\(path) cannot be written") }
        return (secret, absolute)
    }
}
