import Foundation
import Glibc
import Ledger
import PostgresClient
import Synchronization

/// Appends verified facts with their evidence through the ledger's writer, so many at a time.
struct AppendWorker {
    /// Events made before the time begins, for each second of a measurement; those beyond are made meanwhile.
    private static let madePerSecond = 60_000.0

    private let request: WorkerRequest.Append
    private let stream: LifeStream
    private let made: [EventDraft]
    private let taken = Ticket()

    init(_ request: WorkerRequest.Append) throws {
        self.request = request
        stream = LifeStream(request.shape, evidence: try Workload.evidence())
        stream.skip(request.skip)
        var made: [EventDraft] = []
        for _ in 0..<Int(request.seconds * Self.madePerSecond) {
            guard let draft = stream.next() else { break }
            made.append(draft)
        }
        self.made = made
    }

    private func next() -> EventDraft? {
        let number = taken.take()
        return number < made.count ? made[number] : stream.next()
    }

    func run() async throws -> WorkerResult {
        let pool = PostgresPool(
            request.conninfo, limits: PostgresPool.Limits(connections: 2, waiters: 16_384, wait: .seconds(60)))
        let batches = BatchCount()
        let writer = LedgerWriter(pool: pool, now: Workload.now) { batches.add($0) }
        // Connections are made and statements prepared before the time begins.
        var warm = 0
        while warm < 3, let draft = next() {
            _ = try await writer.append(draft)
            warm += 1
        }
        batches.reset()
        let processor = ProcessStatistics.ownProcessorTime()
        let result = try await append(with: writer, already: warm)
        let used = ProcessStatistics.ownProcessorTime() - processor
        await writer.drain()
        await pool.close()
        if let path = request.customersFile {
            try (stream.customers().joined(separator: "\n") + "\n").write(
                toFile: path, atomically: true, encoding: .utf8)
        }
        return WorkerResult(
            operations: result.count, seconds: result.seconds, p50Milliseconds: Quantile.of(result.samples, 0.5),
            p99Milliseconds: Quantile.of(result.samples, 0.99), processorSeconds: used / .seconds(1),
            batch: batches.mean)
    }

    private func append(
        with writer: LedgerWriter, already: Int
    ) async throws -> (count: Int, seconds: Double, samples: [Double]) {
        let start = ContinuousClock.now
        let end = request.seconds > 0 ? start + .seconds(request.seconds) : start + .seconds(24 * 3600)
        let limit = request.events > 0 ? request.events - already : .max
        let (ticket, done) = (Ticket(), Ticket())
        let progress = request.showsProgress ? Progress(total: request.events, start: start) : nil
        let tasks = try await withThrowingTaskGroup(of: (count: Int, samples: [Double]).self) { group in
            for _ in 0..<request.concurrency {
                group.addTask {
                    var (count, samples) = (0, [Double]())
                    var now = ContinuousClock.now
                    while now < end, ticket.take() < limit, let draft = next() {
                        _ = try await writer.append(draft)
                        let after = ContinuousClock.now
                        // Of a long run, a part says enough.
                        if samples.count < 4000 { samples.append(now.duration(to: after) / .milliseconds(1)) }
                        count += 1
                        now = after
                        if let progress { progress.show(done.take()) }
                    }
                    return (count, samples)
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        return (
            tasks.reduce(0) { $0 + $1.count }, start.duration(to: .now) / .seconds(1), tasks.flatMap(\.samples)
        )
    }
}

/// Counts batches, to say how large they were.
private final class BatchCount: Sendable {
    private let state = Mutex((batches: 0, events: 0))

    func add(_ report: LedgerWriter.BatchReport) {
        state.withLock { $0 = ($0.batches + 1, $0.events + report.events) }
    }

    func reset() { state.withLock { $0 = (0, 0) } }

    var mean: Double { state.withLock { $0.batches == 0 ? 0 : Double($0.events) / Double($0.batches) } }
}

/// Says on standard error how far a long load is: each second on a terminal, else every half minute.
private final class Progress: Sendable {
    private let total: Int
    private let start: ContinuousClock.Instant
    private let isTerminal = isatty(2) == 1
    private let next: Mutex<ContinuousClock.Instant>

    init(total: Int, start: ContinuousClock.Instant) {
        self.total = total
        self.start = start
        next = Mutex(start + .seconds(1))
    }

    func show(_ done: Int) {
        guard done % 256 == 0 else { return }
        let now = ContinuousClock.now
        let interval: Duration = isTerminal ? .seconds(1) : .seconds(30)
        let isDue = next.withLock { next in
            guard now >= next else { return false }
            next = now + interval
            return true
        }
        guard isDue else { return }
        let perSecond = Int(Double(done) / (start.duration(to: now) / .seconds(1)))
        let line = "  \(done) of \(total) events, \(perSecond)/s"
        complain(isTerminal ? "\r\u{1B}[K\(line)" : "\(line)\n")
    }
}
