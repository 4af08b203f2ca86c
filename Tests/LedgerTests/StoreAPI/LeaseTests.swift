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
}
