import EntitlementKit
import Foundation
import Synchronization
import Testing

/// Time that passes when a test says so.
final class ManualClock: EntitlementClock {
    private struct State {
        var wall: Date
        var uptime = Duration.zero
        var sleepers: [Int: (due: Duration, continuation: CheckedContinuation<Void, any Error>)] = [:]
        var last = 0
        var beforeSleep: (@Sendable (Duration) -> Void)?
    }

    private let state: Mutex<State>

    init(day: Double = 1) { state = Mutex(State(wall: Statements.date(day))) }

    func now() -> Date { state.withLock { $0.wall } }

    func uptime() -> Duration { state.withLock { $0.uptime } }

    /// The days after which those who sleep are woken, the first first.
    var alarms: [Duration] { state.withLock { state in state.sleepers.values.map { $0.due - state.uptime }.sorted() } }

    func advance(days: Double) { advance(.milliseconds(Int64(days * 86_400_000))) }

    func advance(_ duration: Duration) {
        let woken = state.withLock { state in
            state.uptime += duration
            state.wall += Double(duration.components.seconds) + Double(duration.components.attoseconds) / 1e18
            let due = state.sleepers.filter { $0.value.due <= state.uptime }
            for number in due.keys { state.sleepers[number] = nil }
            return due.values.map(\.continuation)
        }
        for continuation in woken { continuation.resume() }
    }

    /// Somebody sets the calendar clock.
    func set(day: Double) { state.withLock { $0.wall = Statements.date(day) } }

    /// What happens whenever somebody is about to sleep until an uptime.
    func setBeforeSleep(_ body: (@Sendable (Duration) -> Void)?) { state.withLock { $0.beforeSleep = body } }

    func sleep(until uptime: Duration) async throws {
        let (number, before) = state.withLock { state in
            state.last += 1
            return (state.last, state.beforeSleep)
        }
        before?(uptime)
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isOver = state.withLock { state in
                    guard !Task.isCancelled, uptime > state.uptime else { return true }
                    state.sleepers[number] = (uptime, continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
            try Task.checkCancellation()
        } onCancel: {
            let sleeper = state.withLock { $0.sleepers.removeValue(forKey: number) }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
    }
}

/// Lets others run until something is so.
func eventually(
    _ what: String, sourceLocation: SourceLocation = #_sourceLocation,
    isolation: isolated (any Actor)? = #isolation, _ condition: () async -> Bool
) async {
    let deadline = ContinuousClock.now + .seconds(20)
    var looks = 0
    while ContinuousClock.now < deadline {
        if await condition() { return }
        looks += 1
        // Tests run side by side, and one that only waits is not to keep the others from what they do.
        if looks < 20 { await Task.yield() } else { try? await Task.sleep(for: .milliseconds(2)) }
    }
    Issue.record("never came: \(what)", sourceLocation: sourceLocation)
}

/// A door that a test opens.
actor Door {
    private(set) var isOpen: Bool
    private var waiters: [CheckedContinuation<Void, Never>] = []
    private(set) var visitors = 0

    init(isOpen: Bool = false) { self.isOpen = isOpen }

    func pass() async {
        visitors += 1
        guard !isOpen else { return }
        await withCheckedContinuation { waiters.append($0) }
    }

    func open() {
        isOpen = true
        for waiter in waiters { waiter.resume() }
        waiters = []
    }
}

/// Lets time pass, at most a minute in half a second, until something is done.
///
/// Time passes only while everybody waits: on a slow machine whoever still works is not to be outrun by it.
///
/// - Parameter begins: from when on.
func whileTimePasses<Answer: Sendable>(
    on clock: ManualClock, since begins: @escaping @Sendable () async -> Bool = { true },
    isolation: isolated (any Actor)? = #isolation, _ body: () async -> Answer
) async -> Answer {
    let isOver = Mutex(false)
    let ticking = Task {
        while !isOver.withLock({ $0 }), !(await begins()) { try? await Task.sleep(for: .milliseconds(2)) }
        await withCheckedContinuation { continuation in
            // Not on one of the threads that are to be at rest.
            Thread.detachNewThread {
                var looks = 0
                while !isOver.withLock({ $0 }) {
                    Thread.sleep(forTimeInterval: 0.002)
                    looks += 1
                    // Tests that run side by side are never all at rest.
                    guard everybodyWaits() || looks == 100 else { continue }
                    clock.advance(.milliseconds(250))
                    looks = 0
                }
                continuation.resume()
            }
        }
    }
    let answer = await body()
    isOver.withLock { $0 = true }
    await ticking.value
    return answer
}

/// Whether no thread of this process but the one that asks has anything to do; so too where the system does not tell.
private func everybodyWaits() -> Bool {
    let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
    return threads.count { thread in
        guard let file = FileHandle(forReadingAtPath: "/proc/self/task/\(thread)/stat"),
            let data = try? file.readToEnd()
        else { return false }
        // The state follows the name, which is in brackets.
        let state = String(decoding: data, as: UTF8.self).split(separator: ")").last?.dropFirst().first
        return state == "R" || state == "D"
    } <= 1
}
