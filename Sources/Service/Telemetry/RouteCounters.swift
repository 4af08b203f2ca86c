import Synchronization

/// Counts the answers of one route without locks: one thread writes, and whoever shows the metrics reads.
///
/// What it has counted is added to what `Metrics` counted of the same route.
final class RouteCounters: Sendable {
    let route: String
    /// The family that tells which answers were in memory.
    let family: CounterFamily
    private let ok = Atomic<UInt64>(0)
    private let notModified = Atomic<UInt64>(0)
    private let fromMemory = Atomic<UInt64>(0)
    private let nanoseconds = Atomic<UInt64>(0)
    private let buckets: [Bucket]

    private final class Bucket: Sendable {
        let count = Atomic<UInt64>(0)
    }

    private static let bounds = HistogramFamily.requestDuration.bounds.map { Duration.seconds($0) }

    init(route: String, sourcesIn family: CounterFamily) {
        self.route = route
        self.family = family
        buckets = (0...Self.bounds.count).map { _ in Bucket() }
    }

    /// Counts an answer, and whether it was in memory; only one thread may.
    func count(status: Int, duration: Duration, wasInMemory: Bool) {
        if wasInMemory { Self.add(1, to: fromMemory) }
        if status == 304 { Self.add(1, to: notModified) } else { Self.add(1, to: ok) }
        Self.add(UInt64(max(0, duration / .nanoseconds(1))), to: nanoseconds)
        let bucket = Self.bounds.firstIndex { duration <= $0 } ?? Self.bounds.count
        Self.add(1, to: buckets[bucket].count)
    }

    /// Answers by whether they were in memory or had to be loaded.
    var sources: [(source: String, count: UInt64)] {
        let memory = fromMemory.load(ordering: .relaxed)
        let all = ok.load(ordering: .relaxed) + notModified.load(ordering: .relaxed)
        return [("memory", memory), ("database", all - min(all, memory))].filter { $0.1 > 0 }
    }

    /// Answers by status.
    var statuses: [(status: Int, count: UInt64)] {
        [(200, ok.load(ordering: .relaxed)), (304, notModified.load(ordering: .relaxed))].filter { $0.1 > 0 }
    }

    /// Answers by how long they took: how many in each bucket, and the sum in seconds.
    var durations: (counts: [UInt64], sum: Double) {
        (buckets.map { $0.count.load(ordering: .relaxed) }, Double(nanoseconds.load(ordering: .relaxed)) / 1e9)
    }

    /// With one writer a load and a store will do, which cost less than an addition that others could see.
    private static func add(_ number: UInt64, to counter: borrowing Atomic<UInt64>) {
        counter.store(counter.load(ordering: .relaxed) &+ number, ordering: .relaxed)
    }
}
