import EntitlementCore
import Testing

@testable import EntitlementKit

@Suite("Kit: SyncQueue")
struct SyncQueueTests {
    private func key(_ id: String?, _ customer: CustomerID = "c") -> SyncQueue.Key {
        SyncQueue.Key(customerID: customer, transactionID: id)
    }

    private func take(_ queue: inout SyncQueue, at uptime: Int64) -> SyncQueue.Batch? {
        queue.takeBatch(uptime: uptime) { _ in true }
    }

    @Test("an item is tried five times, after 1 s, 5 s, 30 s and 5 min, then rests and is not dropped")
    func schedule() throws {
        var queue = SyncQueue()
        _ = queue.add(key("1"))
        var now: Int64 = 0
        for (attempt, delay) in [Int64?(1_000), 5_000, 30_000, 300_000, nil].enumerated() {
            let batch = try #require(take(&queue, at: now))
            let failures = queue.settle(failed: batch, mayBeContent: false, retryAfter: 0, uptime: now)
            #expect(failures == [SyncQueue.Failure(key: key("1"), attempts: attempt + 1, delay: delay)])
            guard let delay else { break }
            let batch2 = take(&queue, at: now + delay - 1)
            #expect(batch2 == nil)
            #expect(queue.nextDue { _ in true } == now + delay)
            now += delay
        }
        let batch3 = take(&queue, at: .max / 2)
        #expect(batch3 == nil)
        #expect(queue.pending == [key("1")])
        queue.wake()
        let batch4 = take(&queue, at: now)
        #expect(batch4?.transactionIDs == ["1"])
    }

    @Test("Retry-After is honoured, and never shortens the schedule", arguments: [0, 700, 60_000])
    func retryAfter(_ asked: Int64) throws {
        var queue = SyncQueue()
        _ = queue.add(key("1"))
        let batch = try #require(take(&queue, at: 0))
        _ = queue.settle(failed: batch, mayBeContent: false, retryAfter: asked, uptime: 0)
        #expect(queue.nextDue { _ in true } == max(1_000, asked))
    }

    @Test("nothing is sent, however urgent, until Retry-After is over, and then all of it")
    func quiet() throws {
        var queue = SyncQueue()
        _ = queue.add(key("1"))
        let batch = try #require(take(&queue, at: 0))
        _ = queue.settle(failed: batch, mayBeContent: false, retryAfter: 60_000, uptime: 0)
        _ = queue.add(key("2"))
        queue.wake()
        let early = take(&queue, at: 59_999)
        #expect(early == nil)
        #expect(queue.nextDue { _ in true } == 60_000)
        let late = take(&queue, at: 60_000)
        #expect(late?.transactionIDs == ["1", "2"])
    }

    @Test("an item that is refused on its own fails without the others")
    func refusedAlone() throws {
        var queue = SyncQueue()
        for id in ["1", "2", "3"] { _ = queue.add(key(id)) }
        let batch = try #require(take(&queue, at: 0))
        #expect(batch.transactionIDs == ["1", "2", "3"])
        let failures = queue.settle(batch, refused: ["2"], uptime: 0)
        #expect(failures.map(\.key) == [key("2")])
        #expect(queue.pending == [key("2")])
    }

    @Test("an item that the server cannot take is sent alone before it rests", arguments: [0, 1, 37, 99])
    func poison(_ place: Int) throws {
        var queue = SyncQueue()
        let ids = (0..<100).map { String(1000 + $0) }
        for id in ids { _ = queue.add(key(id)) }
        var now: Int64 = 0
        while let due = queue.nextDue(isSendable: { _ in true }) {
            now = max(now, due)
            while let batch = take(&queue, at: now) {
                if batch.transactionIDs.contains(ids[place]) {
                    _ = queue.settle(failed: batch, mayBeContent: true, retryAfter: 0, uptime: now)
                } else {
                    _ = queue.settle(batch, refused: [], uptime: now)
                }
            }
        }
        #expect(queue.pending == [key(ids[place])])
    }

    @Test("an item at which the server fails keeps the question from no answer, and is alone after a few launches")
    func serversFault() throws {
        var queue = SyncQueue()
        _ = queue.add(key(nil))
        for number in 0..<99 { _ = queue.add(key("\(1000 + number)")) }
        var (now, isAnswered, requests): (Int64, Bool, [Int]) = (0, false, [])
        for _ in 0..<4 {
            var count = 0
            while let due = queue.nextDue(isSendable: { _ in true }) {
                now = max(now, due)
                while let batch = take(&queue, at: now) {
                    count += 1
                    if batch.transactionIDs.contains("1037") {
                        _ = queue.settle(
                            failed: batch, mayBeContent: false, isServersFault: true, retryAfter: 0, uptime: now)
                    } else {
                        isAnswered = isAnswered || batch.asks
                        _ = queue.settle(batch, refused: [], uptime: now)
                    }
                }
            }
            requests.append(count)
            #expect(isAnswered, "at the first launch")
            queue.wake()
        }
        #expect(queue.pending == [key("1037")])
        #expect(requests.reduce(0, +) <= 40, "\(requests)")
    }

    @Test("what fails although it was woken while it was under way is tried again at once, and then by the schedule")
    func wokenUnderWay() throws {
        var queue = SyncQueue()
        _ = queue.add(key("1"))
        let first = try #require(take(&queue, at: 0))
        queue.wake()
        let failures = queue.settle(failed: first, mayBeContent: false, retryAfter: 0, uptime: 0)
        #expect(failures == [SyncQueue.Failure(key: key("1"), attempts: 0, delay: 0)])
        let second = try #require(take(&queue, at: 0))
        _ = queue.settle(failed: second, mayBeContent: false, retryAfter: 0, uptime: 0)
        #expect(queue.nextDue { _ in true } == 1_000)
    }

    @Test("what is recalled is sent again at once, and what comes of the first request is passed over")
    func recalled() throws {
        var queue = SyncQueue()
        for id in [key(nil), key("1"), key("2", "other")] { _ = queue.add(id) }
        let first = try #require(take(&queue, at: 0))
        let other = try #require(take(&queue, at: 0))
        queue.recall("c")
        let second = try #require(take(&queue, at: 0))
        #expect(second.transactionIDs == ["1"] && second.asks && second.number > other.number)
        let failures = queue.settle(failed: first, mayBeContent: false, retryAfter: 0, uptime: 0)
        #expect(failures.isEmpty && queue.contains(key("1")))
        _ = queue.settle(second, refused: [], uptime: 0)
        #expect(queue.pending == [key("2", "other")])
    }

    @Test("what changes while it is under way is sent again")
    func stale() throws {
        var queue = SyncQueue()
        _ = queue.add(key("1"))
        let batch = try #require(take(&queue, at: 0))
        let batch5 = take(&queue, at: 0)
        #expect(batch5 == nil)
        let answer1 = queue.add(key("1"))
        #expect(!answer1)
        _ = queue.settle(batch, refused: [], uptime: 0)
        let batch6 = take(&queue, at: 0)
        #expect(batch6?.transactionIDs == ["1"])
    }

    @Test("customers are not mixed, and at most so many requests are under way")
    func customers() throws {
        var queue = SyncQueue()
        for customer: CustomerID in ["a", "b", "c", "d", "e"] { _ = queue.add(key("1", customer)) }
        let batches = (0..<SyncQueue.flightLimit).compactMap { _ in take(&queue, at: 0) }
        #expect(batches.map(\.customerID) == ["a", "b", "c", "d"])
        let batch7 = take(&queue, at: 0)
        #expect(batch7 == nil)
        _ = queue.settle(batches[0], refused: [], uptime: 0)
        let batch8 = take(&queue, at: 0)
        #expect(batch8?.customerID == "e")
    }

    @Test("what has no statement to send waits without being tried")
    func unsendable() {
        var queue = SyncQueue()
        _ = queue.add(key("1"))
        let none = queue.takeBatch(uptime: 0) { _ in false }
        #expect(none == nil)
        #expect(queue.nextDue { _ in false } == nil)
        #expect(queue.pending == [key("1")])
    }

    @Test("a request for an answer goes with the next items that are sent, and is not stored")
    func ask() throws {
        var queue = SyncQueue()
        _ = queue.add(key(nil))
        _ = queue.add(key("1"))
        let batch = try #require(take(&queue, at: 0))
        #expect(batch.asks && batch.transactionIDs == ["1"])
        #expect(queue.pending == [key("1")])
    }

    @Test("what a gateway fails is taken apart no further than it helps, and goes together again when it is woken")
    func gateway() {
        var queue = SyncQueue()
        for number in 0..<100 { _ = queue.add(SyncQueue.Key(customerID: "c", transactionID: "\(1000 + number)")) }
        var (uptime, sizes): (Int64, [Int]) = (0, [])
        for delay in SyncQueue.delays {
            while let batch = queue.takeBatch(uptime: uptime, isSendable: { _ in true }) {
                sizes.append(batch.keys.count)
                _ = queue.settle(failed: batch, mayBeContent: true, isServersWord: false, retryAfter: 0, uptime: uptime)
            }
            uptime += delay
        }
        #expect(sizes == [100] + Array(repeating: 25, count: 4) + Array(repeating: 10, count: 20))
        queue.serverAnswered()
        let answered = take(&queue, at: uptime)
        #expect(answered?.keys.count == 10)
        queue.wake()
        #expect(take(&queue, at: uptime)?.keys.count == 90)
    }

    @Test("what the server itself refused goes no further together when it is woken")
    func refusedAndWoken() throws {
        var queue = SyncQueue()
        for number in 0..<100 { _ = queue.add(key("\(1000 + number)")) }
        let batch = try #require(take(&queue, at: 0))
        _ = queue.settle(failed: batch, mayBeContent: true, retryAfter: 0, uptime: 0)
        queue.wake()
        #expect(take(&queue, at: 0)?.keys.count == 25)
    }

    @Test(
        "an uplink through which ten get in time and more do not carries each a few times at most",
        arguments: [60, 200])
    func slowUplink(_ count: Int) {
        var queue = SyncQueue()
        for number in 0..<count { _ = queue.add(key("\(1000 + number)")) }
        var (uptime, posted): (Int64, Int) = (0, 0)
        var flying: [(end: Int64, batch: SyncQueue.Batch)] = []
        func isTooLarge(_ batch: SyncQueue.Batch) -> Bool { batch.transactionIDs.count > 10 }
        while !queue.isEmpty, uptime < 3_600_000 {
            while let batch = take(&queue, at: uptime) {
                posted += batch.transactionIDs.count
                flying.append((uptime + (isTooLarge(batch) ? 60_000 : 5_000), batch))
            }
            let next = [flying.map(\.end).min(), queue.nextDue { _ in true }].compactMap(\.self).min()
            guard let next else { break }
            uptime = max(uptime, next)
            for (_, batch) in flying.filter({ $0.end <= uptime }) {
                if isTooLarge(batch) {
                    _ = queue.settle(
                        failed: batch, mayBeContent: true, isServersWord: false, retryAfter: 0, uptime: uptime)
                } else {
                    _ = queue.settle(batch, refused: [], uptime: uptime)
                    queue.serverAnswered()
                }
            }
            flying.removeAll { $0.end <= uptime }
        }
        #expect(queue.isEmpty && posted <= 4 * count, "\(posted) were carried")
    }
}
