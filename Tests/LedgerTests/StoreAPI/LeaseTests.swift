import Synchronization
import Testing

@testable import Ledger

@Suite("A lease that is kept alive while work runs", .timeLimit(.minutes(1)))
struct LeaseTests {
    private struct Fault: Error, Equatable {}

    @Test("signs are given again and again, also where one fails; what the work returns is returned")
    func signs() async {
        let (signs, given) = AsyncStream<Void>.makeStream()
        let count = await Lease.keepAlive(every: .milliseconds(1)) {
            given.yield()
            throw Fault()
        } while: {
            var count = 0
            for await _ in signs {
                count += 1
                if count == 3 { break }
            }
            return count
        }
        #expect(count == 3)
    }

    @Test(
        "a sign that is under way when the work ends or fails is waited for, and none comes after it",
        arguments: [true, false])
    func end(fails: Bool) async {
        let (signs, given) = AsyncStream<Void>.makeStream()
        let counts = Mutex((begun: 0, ended: 0))
        var fault: Fault?
        do {
            try await Lease.keepAlive(every: .milliseconds(1)) {
                counts.withLock { $0.begun += 1 }
                given.yield()
                // As a query does that was sent: it does not end because somebody is cancelled.
                await Task { try? await Task.sleep(for: .milliseconds(20)) }.value
                counts.withLock { $0.ended += 1 }
            } while: {
                for await _ in signs { break }
                if fails { throw Fault() }
            }
        } catch {
            fault = error as? Fault
        }
        #expect(fault == (fails ? Fault() : nil))
        let atEnd = counts.withLock { $0 }
        #expect(atEnd.begun > 0 && atEnd.begun == atEnd.ended)
    }

    @Test("what failed is let go of with the reason, and what was stopped without one", arguments: [true, false])
    func letGo(isStopped: Bool) async {
        let reasons = Mutex<[String?]>([])
        let work = Task {
            if isStopped { withUnsafeCurrentTask { $0?.cancel() } }
            throw await Lease.letGo(after: Fault()) { reason in
                // A cancelled task would get no connection.
                try Task.checkCancellation()
                reasons.withLock { $0.append(reason) }
                throw Fault()
            }
        }
        let error = await #expect(throws: (any Error).self) { try await work.value }
        #expect(error is CancellationError == isStopped && error is Fault != isStopped)
        #expect(reasons.withLock { $0 } == [isStopped ? nil : "\(Fault())"])
    }
}
