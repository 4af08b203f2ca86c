import OpenSSLCrypto
import StoreSimulator

/// Launches of steady customers' apps: each posts all it holds, of which nothing is new.
struct ReconcileBenchmark {
    private static let customers = 300
    /// Four transactions, renewal information and an app transaction.
    private static let signatures = 6

    private let workload: Workload
    private let service: RunningService

    init(_ workload: Workload, _ service: RunningService) {
        self.workload = workload
        self.service = service
    }

    func run(_ options: Options, _ report: Report) async throws {
        let verified = try VerifyBenchmark.limit(threads: Measure.cores, options)
        let limit = Figure.Limit(
            name: "bare P-256 verification, \(Self.signatures) to each",
            perSecond: verified.perSecond * Double(VerifyBenchmark.signatures) / Double(Self.signatures))
        let requests = try launches()
        let port = service.port
        // What is new of them becomes known.
        let warm = try HTTPConnection(port: port)
        for request in requests { try Self.post(request, over: warm) }
        try await service.database.analyze()
        for connections in [1, 8, 64] {
            let ticket = Ticket()
            let done = try Measure.onThreads(connections, for: options.duration) { _ in
                let connection = try HTTPConnection(port: port)
                return {
                    try Self.post(requests[ticket.take() &* 7919 % requests.count], over: connection)
                    return true
                }
            }
            try report.add(
                Figure("reconcile", "\(connections) connections", unit: "launches/s", done, limit: limit))
        }
    }

    private static func post(_ request: [UInt8], over connection: HTTPConnection) throws {
        let status = try connection.exchange(request)
        guard status == 200 else { throw ConnectionFailure("a launch was answered \(status)") }
    }

    /// One request for each customer.
    private func launches() throws -> [[UInt8]] {
        var story = Storyteller(world: workload.world, seed: 30)
        return try (0..<Self.customers).map { _ in
            let account = story.account()
            let before = story.notifications.count
            let key = story.subscribe(account, to: StoreWorld.ProductID.proMonthly, at: workload.world.start)
            for _ in 0..<3 { story.renew(key) }
            let own = story.notifications[before...]
            let body = PayloadValue.object([
                "app": .string(workload.world.bundleID),
                "signed_transactions": .array(
                    try own.compactMap { try workload.store.signTransaction(of: $0) }.map(PayloadValue.string)),
                "signed_renewal_infos": .array(
                    try own.suffix(1).compactMap(\.renewal).map { .string(try workload.store.sign(.object($0))) }),
                "app_transaction": .string(
                    try workload.store.signAppTransaction(
                        account.appTransactionID ?? "0", .production, world: workload.world)),
            ])
            return HTTPConnection.request(
                "POST", "/v1/customers/\(account.customerID ?? "")/reconcile", key: service.key,
                body: try body.encoded())
        }
    }
}
