import Foundation
import Glibc
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
    /// Processor time of this process for one operation, the load's included.
    let processorMicroseconds: Double
    /// Processor time of the database's processes for one operation; `nil` where they had nothing to do.
    let databaseMicroseconds: Double?

    fileprivate init(_ samples: [Duration], since start: Stopwatch) {
        perSecond = Double(samples.count) / (start.elapsed / .seconds(1))
        latencies = Latencies(samples)
        let count = Double(max(1, samples.count))
        processorMicroseconds = start.processor / .microseconds(1) / count
        let database = start.database / .microseconds(1) / count
        databaseMicroseconds = database > 0 ? database : nil
    }
}

/// What has passed since it was made: time, and processor time of this process and of the database's.
struct Stopwatch: Sendable {
    private let start = ContinuousClock.now
    private let processorStart = Self.processorTime()
    private let databaseStart = DatabaseProcessorTime.total()

    var elapsed: Duration { start.duration(to: .now) }
    var processor: Duration { Self.processorTime() - processorStart }
    var database: Duration { DatabaseProcessorTime.total() - databaseStart }

    private static func processorTime() -> Duration {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}

enum Measure {
    static var cores: Int { ProcessInfo.processInfo.activeProcessorCount }

    /// Calls `operation` over and over, in so many tasks at once, until the time is over or it returns `false`.
    static func concurrently(
        _ tasks: Int, for duration: Duration, _ operation: @escaping @Sendable () async throws -> Bool
    ) async throws -> Throughput {
        let start = Stopwatch()
        let end = ContinuousClock.now + duration
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
        return Throughput(samples, since: start)
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
        let start = Stopwatch()
        for _ in 0..<count { go.signal() }
        for _ in 0..<count { done.wait() }
        let throughput = Throughput(results.withLock { $0 }.flatMap { (try? $0.get()) ?? [] }, since: start)
        for result in results.withLock({ $0 }) { _ = try result.get() }
        return throughput
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
