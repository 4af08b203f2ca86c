import Foundation
import Synchronization

/// How long each of many operations took.
struct Latencies: Sendable {
    private let sorted: [Duration]

    init(_ samples: [Duration]) { sorted = samples.sorted() }

    func milliseconds(atQuantile quantile: Double) -> Double {
        guard !sorted.isEmpty else { return 0 }
        let index = Int((Double(sorted.count - 1) * quantile).rounded())
        return sorted[index] / .milliseconds(1)
    }
}

/// What some workers got done together.
struct Throughput: Sendable {
    let perSecond: Double
    let latencies: Latencies

    fileprivate init(_ samples: [Duration], in elapsed: Duration) {
        perSecond = Double(samples.count) / (elapsed / .seconds(1))
        latencies = Latencies(samples)
    }
}

enum Measure {
    static var cores: Int { ProcessInfo.processInfo.activeProcessorCount }

    /// Calls `operation` over and over, in so many tasks at once, until the time is over or it returns `false`.
    static func concurrently(
        _ tasks: Int, for duration: Duration, _ operation: @escaping @Sendable () async throws -> Bool
    ) async throws -> Throughput {
        let start = ContinuousClock.now
        let end = start + duration
        let samples = try await withThrowingTaskGroup(of: [Duration].self) { group in
            for _ in 0..<tasks {
                group.addTask {
                    var samples: [Duration] = []
                    var now = ContinuousClock.now
                    while now < end, try await operation() {
                        let after = ContinuousClock.now
                        samples.append(now.duration(to: after))
                        now = after
                    }
                    return samples
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        return Throughput(samples, in: start.duration(to: .now))
    }

    /// The same with blocking work, on as many threads.
    ///
    /// `makeOperation` is called once on each thread, before the time begins.
    static func onThreads(
        _ count: Int, for duration: Duration,
        _ makeOperation: @escaping @Sendable (_ worker: Int) throws -> () throws -> Bool
    ) throws -> Throughput {
        let results = Mutex<[Result<[Duration], any Error>]>([])
        let ready = DispatchSemaphore(value: 0)
        let go = DispatchSemaphore(value: 0)
        let done = DispatchSemaphore(value: 0)
        for worker in 0..<count {
            Thread.detachNewThread {
                var isReady = false
                let result = Result {
                    let operation = try makeOperation(worker)
                    ready.signal()
                    isReady = true
                    go.wait()
                    return try samples(of: operation, for: duration)
                }
                if !isReady { ready.signal() }
                results.withLock { $0.append(result) }
                done.signal()
            }
        }
        for _ in 0..<count { ready.wait() }
        let start = ContinuousClock.now
        for _ in 0..<count { go.signal() }
        for _ in 0..<count { done.wait() }
        let elapsed = start.duration(to: .now)
        return Throughput(try results.withLock { $0 }.flatMap { try $0.get() }, in: elapsed)
    }

    private static func samples(of operation: () throws -> Bool, for duration: Duration) throws -> [Duration] {
        var samples: [Duration] = []
        var now = ContinuousClock.now
        let end = now + duration
        while now < end, try operation() {
            let after = ContinuousClock.now
            samples.append(now.duration(to: after))
            now = after
        }
        return samples
    }
}

/// Hands out each number once, to whichever worker asks.
final class Ticket: Sendable {
    private let next = Atomic(0)

    func take() -> Int { next.add(1, ordering: .relaxed).oldValue }
}
