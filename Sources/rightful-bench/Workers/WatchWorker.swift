import Foundation
import Glibc
import Synchronization

/// Asks for customers whose first notification was just sent, over and over, until an entitlement is there.
///
/// The customers and the instants of sending come from another process, by a named pipe.
struct WatchWorker {
    private static let connections = 24
    /// Between two questions about one customer, in microseconds.
    private static let pause: UInt32 = 200
    private static let limit: Int64 = 20_000_000_000

    private let request: WorkerRequest.Watch

    init(_ request: WorkerRequest.Watch) { self.request = request }

    private struct Probe: Sendable {
        let sent: Int64
        let customer: String
    }

    func run() throws -> WorkerResult {
        let probes = Mutex<(waiting: [Probe], isOver: Bool)>(([], false))
        // What waits for it are threads of this worker's own.
        let arrived = DispatchSemaphore(value: 0)
        let (request, start) = (request, MonotonicClock.now())
        Thread.detachNewThread {
            Self.readProbes(request.pipe) { probe in
                probes.withLock { $0.waiting.append(probe) }
                arrived.signal()
            }
            probes.withLock { $0.isOver = true }
            for _ in 0..<Self.connections { arrived.signal() }
        }
        let samples = try Threads.run(Self.connections) { _ in
            let connection = try HTTPConnection(port: request.port)
            var samples: [Double] = []
            while true {
                arrived.wait()
                let (probe, isOver) = probes.withLock { state in
                    (state.waiting.isEmpty ? nil : state.waiting.removeFirst(), state.isOver)
                }
                guard let probe else {
                    if isOver { return samples }
                    continue
                }
                samples.append(try Self.wait(for: probe, request.key, connection))
            }
        }.flatMap(\.self)
        return WorkerResult(
            operations: samples.count, seconds: Double(MonotonicClock.now() - start) / 1e9,
            p50Milliseconds: Quantile.of(samples, 0.5), p99Milliseconds: Quantile.of(samples, 0.99))
    }

    /// How long it took until the entitlement could be read, in milliseconds.
    private static func wait(for probe: Probe, _ key: String, _ connection: HTTPConnection) throws -> Double {
        let question = HTTPConnection.request("GET", "/v1/customers/\(probe.customer)/entitlements", key: key)
        let there = Array("\"gives_access\"".utf8)
        while true {
            let answer = try connection.exchange(question)
            guard answer.status == 200 else { throw BenchmarkFailure("a read was answered \(answer.status)") }
            let passed = MonotonicClock.now() - probe.sent
            if answer.body.firstRange(of: there) != nil { return Double(passed) / 1e6 }
            guard passed < limit else { throw BenchmarkFailure("a notification could not be read after 20 s") }
            usleep(pause)
        }
    }

    /// Reads until the writer is done.
    private static func readProbes(_ path: String, _ found: (Probe) -> Void) {
        guard let file = fopen(path, "r") else { return }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        while fgets(&line, Int32(line.count), file) != nil {
            let words = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
                .split(whereSeparator: \.isWhitespace)
            guard words.count == 2, let sent = Int64(words[0]) else { continue }
            found(Probe(sent: sent, customer: String(words[1])))
        }
    }
}
