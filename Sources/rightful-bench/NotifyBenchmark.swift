/// Notifications from the socket to the answer after their commit.
struct NotifyBenchmark {
    /// More than come in a second on any machine this was run on; a run that used them all up would end early.
    private static let perSecond = 6000.0
    private static let connections = [1, 8, 64]

    private let workload: Workload
    private let service: RunningService

    init(_ workload: Workload, _ service: RunningService) {
        self.workload = workload
        self.service = service
    }

    func run(_ options: Options, _ report: Report) async throws {
        let limit = try VerifyBenchmark.limit(threads: Measure.cores, options)
        for (number, connections) in Self.connections.enumerated() {
            let count = Int(options.seconds * Self.perSecond) / (connections == 1 ? 4 : 1) + 100
            let requests = try await workload.signed(atLeast: count, seed: UInt64(10 + number)).payloads.map(
                Workload.delivery)
            let port = service.port
            // Connections are made and statements prepared before the time begins.
            let warm = try HTTPConnection(port: port)
            for request in requests.prefix(20) { try Self.deliver(request, over: warm) }
            let ticket = Ticket()
            let done = try Measure.onThreads(connections, for: options.duration) { _ in
                let connection = try HTTPConnection(port: port)
                return {
                    let index = 20 + ticket.take()
                    guard index < requests.count else { return false }
                    try Self.deliver(requests[index], over: connection)
                    return true
                }
            }
            try report.add(
                Figure(
                    "notify", "\(connections) connections", unit: "notifications/s", done, limit: limit))
        }
    }

    private static func deliver(_ request: [UInt8], over connection: HTTPConnection) throws {
        let status = try connection.exchange(request)
        guard status == 200 else { throw ConnectionFailure("a notification was answered \(status)") }
    }
}
