import Dispatch
import Foundation
import Glibc

/// Sends notifications at a steady rate, whatever the answers take, and tells a watcher when some of them are sent.
struct PostWorker {
    /// More than are under way at any time.
    private static let connections = 48

    private let request: WorkerRequest.Post
    private let requests: [[UInt8]]
    private let customers: [String]

    init(_ request: WorkerRequest.Post) throws {
        self.request = request
        requests = try Requests.read(request.file)
        customers = try String(contentsOfFile: request.customersFile, encoding: .utf8).split(separator: "\n")
            .map(String.init)
        guard customers.count == requests.count else { throw BenchmarkFailure("requests and customers differ") }
    }

    func run() throws -> WorkerResult {
        let pipe = open(request.pipe, O_WRONLY | O_CLOEXEC)
        guard pipe >= 0 else { throw BenchmarkFailure("cannot open \(request.pipe)") }
        defer { close(pipe) }
        let (order, requests, customers) = (request, requests, customers)
        let count = min(requests.count, Int(order.perSecond * order.seconds))
        let ticket = Ticket()
        let begin = MonotonicClock.now() + 200_000_000
        let samples = try Threads.run(Self.connections) { _ in
            let connection = try HTTPConnection(port: order.port)
            var samples: [Double] = []
            while case let index = ticket.take(), index < count {
                MonotonicClock.sleep(until: begin + Int64(Double(index) / order.perSecond * 1e9))
                let sent = MonotonicClock.now()
                if index % order.everyNth == 0 {
                    // Short enough to be written at once, whoever else writes.
                    let line = Array("\(sent) \(customers[index])\n".utf8)
                    guard write(pipe, line, line.count) == line.count else {
                        throw BenchmarkFailure("the watcher is gone")
                    }
                }
                let status = try connection.exchange(requests[index]).status
                guard status == 200 else { throw BenchmarkFailure("a notification was answered \(status)") }
                samples.append(Double(MonotonicClock.now() - sent) / 1e6)
            }
            return samples
        }.flatMap(\.self)
        return WorkerResult(
            operations: samples.count, seconds: Double(MonotonicClock.now() - begin) / 1e9,
            p50Milliseconds: Quantile.of(samples, 0.5), p99Milliseconds: Quantile.of(samples, 0.99))
    }
}

/// The machine's monotonic clock, in nanoseconds: the same in all processes.
enum MonotonicClock {
    static func now() -> Int64 { Int64(DispatchTime.now().uptimeNanoseconds) }

    /// Returns at once when that instant has passed.
    static func sleep(until instant: Int64) {
        while case let left = instant - now(), left > 0 { usleep(UInt32(min(left / 1000 + 1, 100_000))) }
    }
}
