import StoreSimulator
import Testing

/// Scenario → the whole record as text.
private let expected = [
    expectedSubscriptions, expectedBilling, expectedRefunds, expectedOwnership, expectedOneTime, expectedStatements,
].reduce(into: [String: [String]]()) { all, some in all.merge(some) { first, _ in first } }

@Suite("Scenarios")
struct ScenarioTests {
    @Test("every scenario comes to the timeline that was worked out by hand", arguments: Scenario.all.map(\.name))
    func timeline(name: String) throws {
        let scenario = try #require(Scenario.named(name))
        let wanted = try #require(expected[name], "no expectation is written down for \(name)")
        #expect(lines(of: scenario.life().record) == wanted)
    }

    @Test("names are distinct, and no expectation is left over")
    func names() {
        #expect(Set(Scenario.all.map(\.name)).count == Scenario.all.count)
        #expect(Set(expected.keys) == Set(Scenario.all.map(\.name)))
    }

    @Test("another seed changes ids and nothing of the truth", arguments: Scenario.all.map(\.name))
    func seeds(name: String) throws {
        let scenario = try #require(Scenario.named(name))
        let (one, two) = (scenario.life(seed: 1), scenario.life(seed: 2))
        #expect(lines(of: one.record) == lines(of: two.record))
        #expect(Set(one.record.stories.keys).isDisjoint(with: two.record.stories.keys))
    }

    @Test("what is nobody's becomes the customer's who claims it")
    func claims() throws {
        var record = try #require(Scenario.named("nobodys_purchase")).life().record
        let key = try #require(record.unclaimed.first)
        record.claim(key, by: try #require(Scenario.ann.customerID))
        #expect(lines(of: record) == ["ann news: +active news.monthly 01-01 | expired news.monthly 03-01"])
        #expect(record.unclaimed.isEmpty)
    }

    @Test("a changed policy applies to the past as well")
    func policies() throws {
        var record = try #require(Scenario.named("grace_then_retry_recovered")).life().record
        record.world.policy.graceGivesAccess = false
        record.world.policy.billingRetryGivesAccess = true
        #expect(
            lines(of: record) == [
                "ann news: +active news.monthly 01-01 | in_grace_period news.monthly 02-01"
                    + " | +in_billing_retry news.monthly 02-17 | +active news.monthly 03-10 | expired news.monthly 04-10"
            ])
    }
}

@Suite("Answers of the record")
struct RecordAnswerTests {
    private func answer(_ scenario: String, _ month: Int, _ day: Int, _ entitlement: String = "news") throws
        -> RecordAnswer?
    {
        let record = try #require(Scenario.named(scenario)).life().record
        let customer = try #require(Scenario.ann.customerID)
        return record.answer(
            customer: customer, environment: .production, at: SimulatedCalendar.instant(2026, month, day, 12)
        ).first { $0.entitlement == entitlement }
    }

    @Test("since and until bound the unbroken run of access, across grace and renewal")
    func run() throws {
        let inGrace = try #require(try answer("grace_recovered", 2, 3))
        #expect(inGrace.state == .inGracePeriod)
        #expect(inGrace.givesAccess)
        #expect(inGrace.since == SimulatedCalendar.instant(2026, 1, 1))
        #expect(inGrace.until == SimulatedCalendar.instant(2026, 3, 5))
        let lapsed = try #require(try answer("grace_recovered", 4, 1))
        #expect(lapsed.since == SimulatedCalendar.instant(2026, 3, 5))
        #expect(lapsed.until == nil)
    }

    @Test("retry and expiry are one run without access")
    func runWithout() throws {
        let inRetry = try #require(try answer("retry_sixty_days_in_silence", 3, 1))
        #expect(inRetry.state == .inBillingRetry)
        #expect(inRetry.since == SimulatedCalendar.instant(2026, 2, 1))
        #expect(inRetry.until == nil)
    }

    @Test("nothing is said before the first purchase")
    func before() throws {
        #expect(try answer("resubscribed", 1, 1) != nil)
        let record = try #require(Scenario.named("resubscribed")).life().record
        let customer = try #require(Scenario.ann.customerID)
        let early = SimulatedCalendar.instant(2026, 1, 1) - 1
        #expect(record.answer(customer: customer, environment: .production, at: early).isEmpty)
        #expect(record.answer(customer: customer, environment: .sandbox, at: early + 1).isEmpty)
    }

    @Test("will-renew follows the newest statement, is false when over, and unsaid for one-time purchases")
    func willRenew() throws {
        #expect(try answer("auto_renew_off_and_on", 1, 5)?.willRenew == true)
        #expect(try answer("auto_renew_off_and_on", 1, 15)?.willRenew == false)
        #expect(try answer("auto_renew_off_and_on", 1, 25)?.willRenew == true)
        #expect(try answer("first_purchase", 2, 5)?.willRenew == false)
        #expect(try answer("refund_of_the_running_period", 1, 20)?.willRenew == false)
        #expect(try answer("lifetime_purchase", 1, 20, "premium")?.willRenew == .some(nil))
        let record = try #require(Scenario.named("first_purchase")).life().record
        let unsaid = record.answer(
            customer: try #require(Scenario.ann.customerID), environment: .production,
            at: SimulatedCalendar.instant(2026, 1, 1))
        #expect(unsaid.first?.willRenew == .some(nil))
    }
}
