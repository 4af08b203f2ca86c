import EntitlementCore
import Foundation
import FoundationNetworking
import HTTPServer
import Ledger
import OpenSSLCrypto
import PostgresClient
import TestSupport
import Testing

@testable import Service

/// An instance of the service behind a socket, on the database of a rig.
final class ServedInstance: Sendable {
    let application: Application
    let metrics: Metrics
    private let server: HTTPServer
    private let base: String
    private let session: URLSession

    /// Another instance beside the rig's own; it shares nothing with it but the database, the clock and the keys.
    static func start(on rig: ServiceRig, limits: Application.Limits = .init()) async throws -> ServedInstance {
        let pool = rig.database.pool(connections: 3)
        let now: @Sendable () -> Timestamp = { rig.clock.now }
        let metrics = Metrics(version: "0.0.0", foldVersion: OriginalState.foldVersion)
        let writer = LedgerWriter(pool: pool, now: now, report: { metrics.record($0) })
        let application = Application(
            ServiceContext(
                reader: LedgerReader(pool: pool, now: now), limits: limits, metrics: metrics,
                logger: Logger(level: .error, now: now, sink: { rig.log.keep($0) }),
                sha256: { Digest(SHA256.hash($0)) ?? .zero }, now: now),
            ledger: LedgerAccess(
                writer: writer, keys: APIKeyStore(pool: pool, writer: writer),
                tokens: CustomerTokens(keys: DatabaseTokenKeys(pool: pool), lifetime: limits.keyLifetime),
                commandKeys: CommandKeys(pool: pool), ledgerID: rig.ledger.ledgerID, schemaRefusal: { nil }),
            trust: rig.trust, passes: rig.passes)
        let instance = try ServedInstance(application, metrics)
        // The first reads are answered the general way: the key is not remembered, and the session not yet open.
        while instance.immediateReads == 0 {
            _ = try await instance.read("nobody", key: rig.admin)
            try await Task.sleep(for: .milliseconds(5))
        }
        return instance
    }

    private init(_ application: Application, _ metrics: Metrics) throws {
        self.application = application
        self.metrics = metrics
        server = application.makeServer(HTTPServerConfiguration(port: 0))
        try server.start()
        base = "http://127.0.0.1:\(try #require(server.boundPort))"
        let configuration = URLSessionConfiguration.ephemeral
        configuration.urlCache = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        configuration.httpMaximumConnectionsPerHost = 128
        session = URLSession(configuration: configuration)
    }

    func stop(graceSeconds: Double = 1) async {
        await server.stop(graceSeconds: graceSeconds)
        session.invalidateAndCancel()
    }

    struct Answer: Equatable, CustomStringConvertible {
        let status: Int
        let body: String
        /// Those that the service itself writes, but for the request's id.
        let headers: [String: String]

        fileprivate init(status: Int, body: String, headers: [String: String]) {
            self.status = status
            self.body = body
            self.headers = headers
        }

        fileprivate init(_ response: HTTPResponse) {
            var headers = ["Content-Length": String(response.body.count)]
            for name in ServedInstance.headers.dropLast() { headers[name] = response.header(name) }
            self.init(status: response.status, body: String(decoding: response.body, as: UTF8.self), headers: headers)
        }

        var position: Int64 { headers["Ledger-Position"].flatMap { Int64($0) } ?? -1 }
        var description: String { "\(status) \(headers) \(body)" }
    }

    fileprivate static let headers = ["Content-Type", "Ledger-Position", "ETag", "Cache-Control", "Content-Length"]

    func read(_ customer: String, query: String = "", tag: String? = nil, key: String) async throws -> Answer {
        try await send("/v1/customers/\(customer)/entitlements\(query)", tag: tag, key: key)
    }

    /// Posts to the reconciliation of a customer; headers as in `read`.
    func reconcile(_ customer: String, query: String = "", _ body: [UInt8], key: String) async throws -> Answer {
        try await send("/v1/customers/\(customer)/reconcile\(query)", body: body, key: key)
    }

    private func send(_ target: String, body: [UInt8]? = nil, tag: String? = nil, key: String) async throws -> Answer {
        var request = URLRequest(url: try #require(URL(string: base + target)))
        request.setValue("Bearer " + key, forHTTPHeaderField: "Authorization")
        if let tag { request.setValue(tag, forHTTPHeaderField: "If-None-Match") }
        if let body {
            request.httpMethod = "POST"
            request.httpBody = Data(body)
        }
        let (data, response) = try await session.data(for: request)
        let answer = try #require(response as? HTTPURLResponse)
        #expect(answer.value(forHTTPHeaderField: "X-Request-Id")?.count == 20)
        var headers: [String: String] = [:]
        for name in Self.headers { headers[name] = answer.value(forHTTPHeaderField: name) }
        return Answer(
            status: answer.statusCode, body: String(decoding: data, as: UTF8.self), headers: headers)
    }

    /// What the general path answers, as it would be sent: that of this instance, unless another is named.
    func generalAnswer(
        _ customer: String, query: String = "", tag: String? = nil, key: String, by other: Application? = nil
    ) async throws -> Answer {
        let head = HTTPRequestHead(
            method: "GET", target: "/v1/customers/\(customer)/entitlements\(query)",
            headers: [("Authorization", "Bearer " + key)] + (tag.map { [("If-None-Match", $0)] } ?? []))
        let response = await (other ?? application).handle(try HTTPRequest(head: head))
        return Answer(response)
    }

    /// What the general path answers to a device, as it would be sent: that of this instance, unless another is named.
    ///
    /// That of this instance leaves the answer for the event loop. Another's proves that the loop's own is not outdated.
    func generalReconciliation(
        _ customer: String, query: String = "", _ body: [UInt8], key: String, by other: Application? = nil
    ) async throws -> Answer {
        let head = HTTPRequestHead(
            method: "POST", target: "/v1/customers/\(customer)/reconcile\(query)",
            headers: [("Authorization", "Bearer " + key)])
        return Answer(await (other ?? application).handle(try HTTPRequest(head: head, body: body)))
    }

    /// How many reconciliations the event loop answered.
    var repeatedLaunches: Int { count(#"rightful_repeated_launches_total{source="memory"}"#) }

    /// How many reads the event loop answered, and how many of them from memory.
    var immediateReads: Int { count(#"rightful_immediate_reads_total{source="database"}"#) + readsFromMemory }
    var readsProvenByLease: Int { count(#"rightful_reads_proven_fresh_total{by="lease"}"#) }
    var readsFromMemory: Int { count(#"rightful_immediate_reads_total{source="memory"}"#) }

    private func count(_ sample: String) -> Int {
        metrics.text(isDatabaseUp: true).split(separator: "\n").first { $0.hasPrefix(sample) }
            .flatMap { Int($0.split(separator: " ").last ?? "") } ?? 0
    }
}
