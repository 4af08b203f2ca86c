import Foundation
import Synchronization

/// Sends prepared requests, each exactly once, on connections that each wait for their answers.
struct SendWorker {
    private let request: WorkerRequest.Send
    private let requests: [[UInt8]]

    init(_ request: WorkerRequest.Send) throws {
        self.request = request
        requests = try Requests.read(request.file)
    }

    func run() throws -> WorkerResult {
        let (port, requests) = (request.port, requests)
        let ticket = Ticket()
        let start = ContinuousClock.now
        let samples = try Threads.run(request.connections) { _ in
            let connection = try HTTPConnection(port: port)
            var samples: [Double] = []
            while case let index = ticket.take(), index < requests.count {
                let start = ContinuousClock.now
                let status = try connection.exchange(requests[index]).status
                guard status == 200 else { throw BenchmarkFailure("request \(index) was answered \(status)") }
                samples.append(start.duration(to: .now) / .milliseconds(1))
            }
            return samples
        }.flatMap(\.self)
        return WorkerResult(
            operations: samples.count, seconds: start.duration(to: .now) / .seconds(1),
            p50Milliseconds: Quantile.of(samples, 0.5), p99Milliseconds: Quantile.of(samples, 0.99))
    }
}

/// Blocking work on threads of its own, and waiting for it: the semaphores block threads that are none of Swift's own.
enum Threads {
    /// Runs so many at once and waits for all; the first error is thrown.
    static func run<Value: Sendable>(
        _ count: Int, _ work: @escaping @Sendable (_ number: Int) throws -> Value
    ) throws -> [Value] {
        let results = Mutex<[Result<Value, any Error>]>([])
        let done = DispatchSemaphore(value: 0)
        for number in 0..<count {
            Thread.detachNewThread {
                let result = Result { try work(number) }
                results.withLock { $0.append(result) }
                done.signal()
            }
        }
        for _ in 0..<count { done.wait() }
        return try results.withLock { $0 }.map { try $0.get() }
    }

    /// Blocks until asynchronous work has ended; its error is thrown.
    static func wait<Value: Sendable>(for work: @escaping @Sendable () async throws -> Value) throws -> Value {
        let result = Mutex<Result<Value, any Error>>(.failure(CancellationError()))
        let done = DispatchSemaphore(value: 0)
        Task.detached {
            do {
                let value = try await work()
                result.withLock { $0 = .success(value) }
            } catch {
                result.withLock { $0 = .failure(error) }
            }
            done.signal()
        }
        done.wait()
        return try result.withLock { $0 }.get()
    }
}
