import StoreSimulator
import Testing

/// Scenario → what becomes of its steps, and who owns what in the end.
private let expected = [expectedClaims, expectedLinks, expectedTransfers, expectedGrants]
    .reduce(into: [String: ExpectedWorld]()) { all, some in all.merge(some) { first, _ in first } }

@Suite("Scenarios of several customers")
struct OwnershipScenarioTests {
    /// The verdict on every step but the deliveries, as words; the witness was told of all of them.
    private func verdicts(_ world: OwnershipWorld, _ witness: inout OwnershipWitness) -> [String] {
        var words: [String] = []
        for step in world.steps {
            let verdict = witness.tell(step)
            if case .deliver = step.deed { continue }
            switch verdict {
            case .accepted: words.append("accepted")
            case .refused: words.append("refused")
            case .received(let receptions): words.append(receptions.map(\.rawValue).joined(separator: " "))
            }
        }
        return words
    }

    @Test(
        "every scenario comes to what was worked out by hand, whatever the seed",
        arguments: OwnershipScenario.all.map(\.name), [1, 2] as [UInt64])
    func truth(name: String, seed: UInt64) throws {
        let world = try #require(OwnershipScenario.named(name)).world(seed: seed)
        let wanted = try #require(expected[name], "no expectation is written down for \(name)")
        var witness = world.witness()
        #expect(verdicts(world, &witness) == wanted.verdicts)
        #expect(lines(of: witness.record, cast: OwnershipCast(seed: seed)) == wanted.lines)
    }

    @Test("names are distinct, and no expectation is left over")
    func names() {
        #expect(Set(OwnershipScenario.all.map(\.name)).count == OwnershipScenario.all.count)
        #expect(Set(expected.keys) == Set(OwnershipScenario.all.map(\.name)))
    }

    @Test("worlds of different seeds name nobody in common")
    func strangers() {
        for scenario in OwnershipScenario.all {
            let (one, two) = (scenario.world(seed: 1), scenario.world(seed: 2))
            #expect(Set(one.names).isDisjoint(with: two.names), "\(scenario.name)")
        }
    }

    @Test("an alias is answered what its target holds, and a conflict gives nobody anything")
    func aliases() throws {
        let world = try #require(OwnershipScenario.named("login_after_the_purchase")).world()
        var witness = world.witness()
        let cast = OwnershipCast(seed: 1)
        for step in world.steps {
            if case .link = step.deed {
                #expect(witness.record.customer(cast.annLogin).timelines.isEmpty)
            }
            witness.tell(step)
        }
        let timelines = witness.record.customer(cast.annApple).timelines
        #expect(!timelines.isEmpty)
        #expect(timelines == witness.record.customer(cast.annLogin).timelines)
    }

    @Test("a conflict is noted once for each claimant and original")
    func conflicts() throws {
        let world = try #require(OwnershipScenario.named("thief_posts_what_bears_a_token")).world()
        var witness = world.witness()
        _ = verdicts(world, &witness)
        let cast = OwnershipCast(seed: 1)
        #expect(witness.record.ownership.conflicts.map(\.claimant) == [cast.bobLogin, cast.dan])
        #expect(witness.record.customer(cast.bobLogin).timelines.isEmpty)
        #expect(witness.record.customer(cast.dan).timelines.isEmpty)
    }

    @Test("what was noted of a name was noted of whom it means now")
    func conflictsOfAliases() {
        let cast = OwnershipCast(seed: 1)
        let key = SimulatedOriginalKey(.production, "1")
        var record = Record(world: .standard)
        record.reportConflict(key, claimant: cast.dan.customerID)
        #expect(!record.isReported(key, claimant: cast.cleo.customerID))
        record.link(cast.dan, to: cast.cleo)
        #expect(record.isReported(key, claimant: cast.cleo.customerID))
        record.reportConflict(key, claimant: cast.cleo.customerID)
        #expect(record.ownership.conflicts.map(\.claimant) == [cast.dan])
        record.link(cast.dan, to: cast.dan)
        #expect(record.isReported(key, claimant: cast.dan.customerID))
        #expect(!record.isReported(key, claimant: cast.cleo.customerID))
    }

    @Test("the instants of transfers, grants and their undoing are the service's")
    func instants() throws {
        let world = try #require(OwnershipScenario.named("transfer_and_back")).world()
        var witness = world.witness()
        let later = SimulatedCalendar.instant(2026, 2, 7)
        for step in world.steps {
            if case .transfer = step.deed { witness.tell(step, recordedAt: later) } else { witness.tell(step) }
        }
        let intervals = witness.record.customer(OwnershipCast(seed: 1).cleo).timelines["news"] ?? []
        #expect(intervals.map(\.from) == [later, SimulatedCalendar.instant(2026, 2, 10)])
    }

    @Test("will-renew follows an original to its new owner, and is unsaid of grants")
    func willRenew() throws {
        let world = try #require(OwnershipScenario.named("transfer_before_a_renewal")).world()
        var witness = world.witness()
        for step in world.steps { witness.tell(step) }
        let cast = OwnershipCast(seed: 1)
        let noon = SimulatedCalendar.instant(2026, 1, 20, 12)
        #expect(witness.record.customer(cast.cleo).answer(at: noon).map(\.willRenew) == [true])
        #expect(witness.record.customer(cast.annLogin).answer(at: noon).map(\.willRenew) == [false])
        var record = Record(world: .standard)
        record.grant(cast.dan, "premium", until: noon + 1, at: noon)
        let given = record.customer(cast.dan).answer(at: noon)
        #expect(given.map(\.willRenew) == [nil])
        #expect(given.map(\.source) == [.grant])
        #expect(given.map(\.until) == [noon + 1])
    }

    @Test("two undoings in one millisecond leave what the later one says")
    func sameMillisecond() {
        var storyteller = Storyteller(world: .standard, seed: 1)
        let cast = OwnershipCast(seed: 1)
        let key = storyteller.buy(cast.ann, StoreWorld.ProductID.lifetime, at: SimulatedCalendar.instant(2026, 1, 1))
        var record = storyteller.record
        let instant = SimulatedCalendar.instant(2026, 1, 10)
        let transfer = record.transfer(key, to: cast.cleo.customerID, at: instant)
        let isUndone = record.undoTransfer(key, transfer, at: instant)
        #expect(isUndone)
        #expect(lines(of: record, cast: cast) == ["ann premium: +active lifetime 01-01"])
    }
}
