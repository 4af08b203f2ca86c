import AppStoreServer
import EntitlementCore
import Glibc
import HTTPServer
import Ledger
import OpenSSLCrypto
import Synchronization
import Testing

@testable import Service

@Suite("Work that takes long", .serialized, .timeLimit(.minutes(5)))
struct LongWorkTests {
    private static func refusal(_ work: () async throws -> Void) async -> String {
        do {
            try await work()
            return "done"
        } catch let problem as Problem {
            return problem.code.rawValue
        } catch {
            return String(describing: type(of: error))
        }
    }

    @Test("it occupies none of the threads on which everybody else is answered")
    func ownThread() async throws {
        let rig = try await ServiceRig.make()
        let work = LongWork(limit: .seconds(60), mostWaiting: 64)
        let isOver = Flag()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<64 {
                group.addTask {
                    try await work.run { wish in
                        while !isOver.isSet {
                            try wish.check()
                            usleep(1000)
                        }
                    }
                }
            }
            for _ in 0..<20 { #expect(try await rig.get("/v1/ledger").status == 200) }
            isOver.set()
            try await group.waitForAll()
        }
    }

    @Test("it is given up when nobody wants it any more, when it takes too long, and when too many wait")
    func bounds() async throws {
        let endless: @Sendable (LongWork.Wish) throws -> Void = { wish in
            while true {
                try wish.check()
                usleep(1000)
            }
        }
        let short = LongWork(limit: .milliseconds(50), mostWaiting: 2)
        #expect(await Self.refusal { try await short.run(endless) } == "unavailable")

        let long = LongWork(limit: .seconds(60), mostWaiting: 2)
        let unwanted = (0..<2).map { _ in Task { await Self.refusal { try await long.run(endless) } } }
        while long.waiting.withLock({ $0 }) < 2 { try await Task.sleep(for: .milliseconds(1)) }
        #expect(await Self.refusal { try await long.run { _ in } } == "unavailable")
        for task in unwanted { task.cancel() }
        for task in unwanted { #expect(await task.value == "CancellationError") }
        #expect(await Self.refusal { try await long.run { _ in } } == "done")
    }

    @Test("a long life is explained there, within its time; a short one at once")
    func explain() async throws {
        var limits = Application.Limits()
        let patient = try await ServiceRig.make(limits: limits)
        limits.explanationTime = .zero
        let hurried = try await ServiceRig.make(limits: limits)
        for (rig, verdict) in [(patient, "200 -"), (hurried, "503 unavailable")] {
            _ = try await rig.put(ServiceRig.proCatalog)
            _ = try await rig.notify(Purchase())
            let path = "/v1/customers/\(Purchase.customer)/explain"
            #expect(try await rig.get(path).status == 200)
            try await rig.prolong(by: 600)
            let answer = try await rig.get(path)
            #expect(answer.verdict == verdict)
            if verdict == "503 unavailable" { #expect(answer.header("Retry-After") != nil) }
            #expect(try await rig.get("/v1/customers/\(Purchase.customer)/export").verdict == verdict)
        }
    }

    @Test("one piece of work has its turn at a time, each that waits has one, and who finds too many waiting has none")
    func turns() async throws {
        let turns = Turns(mostWaiting: 4, refusal: "later")
        let (counts, isOver) = (Counts(), Flag())
        let work: @Sendable () async throws -> Void = {
            counts.state.withLock { $0 = ($0.running + 1, max($0.most, $0.running + 1), $0.done) }
            while !isOver.isSet { try await Task.sleep(for: .milliseconds(1)) }
            await Task.yield()
            counts.state.withLock { $0 = ($0.running - 1, $0.most, $0.done + 1) }
        }
        var tasks: [Task<String, Never>] = []
        for number in 0..<5 {
            tasks.append(Task { await Self.refusal { try await turns.run(work) } })
            // The first works, and each that follows waits, before the next comes.
            while counts.state.withLock({ $0.running }) == 0 { try await Task.sleep(for: .milliseconds(1)) }
            while await turns.waiting.count < number { try await Task.sleep(for: .milliseconds(1)) }
        }
        #expect(await Self.refusal { try await turns.run(work) } == "unavailable")
        tasks[2].cancel()
        isOver.set()
        var outcomes: [String] = []
        for task in tasks { outcomes.append(await task.value) }
        #expect(outcomes == ["done", "done", "CancellationError", "done", "done"])
        let (_, most, done) = counts.state.withLock { $0 }
        #expect(most == 1 && done == 4)
        #expect(await Self.refusal { try await turns.run(work) } == "done")
    }

    @Test("a life of 50,000 events is explained in time, because that takes no longer than in proportion to its length")
    func longestLife() async throws {
        let history = try Self.history(events: 50_000)
        let question = ExplainQuestion(
            customer: try #require(CustomerID("c")), environment: .production, entitlementID: nil,
            at: try #require(history.events.last?.occurredAt))
        let explanation = try await LongWork(limit: .seconds(60), mostWaiting: 1).run { wish in
            try question.answer(from: history, isKnown: { _ in false }, check: wish.check).explanations.first
        }
        #expect(explanation?.answer?.state == .active)
        #expect(explanation?.events.map(\.position) == [1, 50_000])
    }

    /// A catalog, and a subscription that was renewed each day.
    private static func history(events count: Int) throws -> CustomerHistory {
        let catalog = Catalog(products: [CatalogProduct(productID: "p", entitlements: ["premium"])])
        var events = [
            HistoryEvent(
                position: 1, recordedAt: .earliest, environment: nil, source: "api", statementSource: .notification,
                type: "catalog_applied", occurredAt: nil, fact: .catalog(catalog))
        ]
        for number in 2...Int64(count) {
            let start = Timestamp(milliseconds: number * Timestamp.millisecondsPerDay)
            let hash = Digest(SHA256.hash(Array("\(number)".utf8))) ?? .zero
            let transaction = TransactionFact(
                payloadHash: hash, signedDate: start, transactionID: "\(number)", originalTransactionID: "2",
                productID: "p", bundleID: "com.example", kind: .known(.autoRenewable), purchaseDate: start,
                expiresDate: start.adding(milliseconds: Timestamp.millisecondsPerDay),
                reason: .known(number == 2 ? .purchase : .renewal), ownership: .known(.purchased),
                accountToken: IdentityRef(1))
            let renewal = RenewalFact(payloadHash: hash, signedDate: start, originalTransactionID: "2")
            let fact = NotificationFact(
                type: "DID_RENEW", subtype: nil, uuid: "\(number)", signedDate: start, payloadHash: hash,
                bundleID: "com.example", transaction: transaction, renewal: renewal, remarks: [])
            events.append(
                HistoryEvent(
                    position: number, recordedAt: start, environment: .production, source: "app_store_notification",
                    statementSource: .notification, type: "renewed", occurredAt: start, fact: .notification(fact)))
        }
        return CustomerHistory(
            of: IdentityRef(1), environment: .production, position: Int64(count), events: events)
    }

    @Test("an explanation asks before each step whether it is still wanted")
    func cancelled() async throws {
        struct Unwanted: Error {}
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        _ = try await rig.notify(Purchase())
        let customer = try #require(CustomerID(Purchase.customer))
        let history = try await rig.context.reader.history(of: customer, environment: .production)
        let question = ExplainQuestion(
            customer: customer, environment: .production, entitlementID: nil, at: rig.clock.now)
        var asked = 0
        _ = question.answer(from: history, isKnown: { _ in false }, check: { asked += 1 })
        #expect(asked > 3)
        for step in 1...asked {
            var left = step
            #expect(throws: Unwanted.self) {
                try question.answer(
                    from: history, isKnown: { _ in false },
                    check: {
                        left -= 1
                        if left == 0 { throw Unwanted() }
                    })
            }
        }
    }
}

/// How much work goes on, how much went on at once at the most, and how much was done.
private final class Counts: Sendable {
    let state = Mutex((running: 0, most: 0, done: 0))
}

private final class Flag: Sendable {
    private let value = Atomic(false)

    var isSet: Bool { value.load(ordering: .relaxed) }

    func set() { value.store(true, ordering: .relaxed) }
}

extension ServiceRig {
    /// Appends so many renewals to the life of the standard purchase.
    fileprivate func prolong(by count: Int) async throws {
        let writer = ledger.writer
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<count {
                var purchase = Purchase().renewed(uuid: "3838df56-31ab-4e2d-9f44-\(100_000_000_000 + number)")
                purchase.transaction += "\(number)"
                let signed = try purchase.signed(by: store)
                let verified = try trust.notifications.verify(signedPayload: signed, now: clock.now)
                group.addTask { _ = try await writer.append(EventDraft(verified)) }
            }
            try await group.waitForAll()
        }
    }
}
