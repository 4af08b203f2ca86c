import StoreSimulator
import Testing

@Suite("Random worlds of several customers")
struct OwnershipWorldTests {
    private func watched(_ world: OwnershipWorld) -> OwnershipWitness {
        var witness = world.witness()
        for step in world.steps { witness.tell(step) }
        return witness
    }

    @Test("equal seeds give equal worlds, other seeds others", arguments: 0..<20 as Range<UInt64>, [false, true])
    func determinism(seed: UInt64, storeFirst: Bool) {
        let world = OwnershipWorld.random(seed: seed, storeFirst: storeFirst)
        let again = OwnershipWorld.random(seed: seed, storeFirst: storeFirst)
        #expect(world.steps == again.steps)
        #expect(world.notifications == again.notifications)
        #expect(lines(of: watched(world).record) == lines(of: watched(again).record))
        let other = OwnershipWorld.random(seed: seed + 1, storeFirst: storeFirst)
        #expect(world.steps != other.steps)
        #expect(Set(world.names).isDisjoint(with: other.names), "seed \(seed)")
    }

    @Test("steps are numbered and in the order of their instants", arguments: 0..<30 as Range<UInt64>)
    func order(seed: UInt64) {
        let world = OwnershipWorld.random(seed: seed)
        #expect(world.steps.map(\.number) == Array(world.steps.indices), "seed \(seed)")
        #expect(zip(world.steps, world.steps.dropFirst()).allSatisfy { $0.instant <= $1.instant }, "seed \(seed)")
    }

    @Test("everything the record tells of arrives or is posted", arguments: 0..<50 as Range<UInt64>)
    func arrivals(seed: UInt64) {
        let world = OwnershipWorld.random(seed: seed)
        let witness = watched(world)
        #expect(Set(witness.knownOriginals) == Set(witness.record.stories.keys), "seed \(seed)")
        let delivered = world.steps.compactMap { step in
            if case .deliver(let index) = step.deed { index } else { nil }
        }
        #expect(Set(delivered) == Set(world.notifications.indices), "seed \(seed)")
    }

    @Test("nobody posts what was not signed yet, another environment's, or two statements about one payment")
    func statements() {
        for seed in 0..<50 as Range<UInt64> {
            for step in OwnershipWorld.random(seed: seed).steps {
                guard case .post(let post) = step.deed else { continue }
                let testimonies = post.statements.map(\.testimony)
                #expect(!testimonies.isEmpty, "seed \(seed), step \(step.number)")
                #expect(testimonies.allSatisfy { $0.signedDate <= step.instant }, "seed \(seed), step \(step.number)")
                let environments = Set(testimonies.map(\.key.environment))
                #expect(environments == [post.customer.environment], "seed \(seed), step \(step.number)")
                let payments = Set(testimonies.map { "\($0.key) \($0.payment)" })
                #expect(payments.count == testimonies.count, "seed \(seed), step \(step.number)")
            }
        }
    }

    @Test("timelines are ordered, disjoint and without gaps, for every name", arguments: 0..<80 as Range<UInt64>)
    func timelines(seed: UInt64) throws {
        let world = OwnershipWorld.random(seed: seed)
        let record = watched(world).record
        for name in world.names {
            for (entitlement, intervals) in record.customer(name).timelines {
                let context = "seed \(seed), \(name), \(entitlement)"
                for (interval, next) in zip(intervals, intervals.dropFirst()) {
                    let until = try #require(interval.until, "\(context)")
                    #expect(interval.from < until, "\(context)")
                    #expect(until == next.from, "\(context)")
                    #expect(
                        interval.state != next.state || interval.productID != next.productID
                            || interval.source != next.source
                            || interval.originalTransactionID != next.originalTransactionID, "\(context)")
                }
                let last = try #require(intervals.last)
                #expect(last.until == nil, "\(context)")
            }
        }
    }

    @Test("one original never gives two customers access at one instant", arguments: 0..<60 as Range<UInt64>)
    func oneHolder(seed: UInt64) {
        let record = watched(OwnershipWorld.random(seed: seed)).record
        let given = record.customers.flatMap { customer in
            record.customer(customer).timelines.values.joined()
                .filter { $0.givesAccess && $0.source == .appStore }
                .map { (customer: customer, interval: $0) }
        }
        for (index, one) in given.enumerated() {
            for other in given[(index + 1)...]
            where one.customer.environment == other.customer.environment && one.customer != other.customer
                && one.interval.originalTransactionID == other.interval.originalTransactionID
            {
                let begin = max(one.interval.from, other.interval.from)
                let end = min(one.interval.until ?? .max, other.interval.until ?? .max)
                #expect(begin >= end, "seed \(seed): \(one) and \(other)")
            }
        }
    }

    @Test("aliases answer as whom they mean, and everybody who owns anything is named")
    func names() {
        for seed in 0..<50 as Range<UInt64> {
            let world = OwnershipWorld.random(seed: seed)
            let record = watched(world).record
            for (alias, customer) in record.ownership.aliases {
                #expect(record.customer(alias).timelines == record.customer(customer).timelines, "seed \(seed)")
                #expect(!record.customers.contains(alias), "seed \(seed)")
            }
            #expect(Set(record.customers).isSubset(of: world.names), "seed \(seed)")
            #expect(Set(record.ownership.conflicts).count == record.ownership.conflicts.count, "seed \(seed)")
        }
    }

    @Test("with the store first, nothing arrives after anything else has happened", arguments: 0..<20 as Range<UInt64>)
    func storeFirst(seed: UInt64) {
        let steps = OwnershipWorld.random(seed: seed, storeFirst: true).steps
        let deliveries = steps.filter { if case .deliver = $0.deed { true } else { false } }
        #expect(steps.prefix(deliveries.count).elementsEqual(deliveries), "seed \(seed)")
    }

    @Test("fifty seeds together bring every kind of step and every verdict")
    func coverage() {
        var seen = Set<String>()
        for seed in 0..<50 as Range<UInt64> {
            let world = OwnershipWorld.random(seed: seed)
            var witness = world.witness()
            for step in world.steps {
                switch (step.deed, witness.tell(step)) {
                case (.deliver, _): seen.insert("deliver")
                case (.post(let post), .received(let receptions)):
                    seen.formUnion(receptions.map { "post \($0.rawValue)" })
                    switch post.proof {
                    case .none: seen.insert("no proof")
                    case .secretKey: seen.insert("secret key")
                    case .customerToken: seen.insert("customer token")
                    case .appTransaction: seen.insert("app transaction")
                    }
                case (.link(let link), let verdict): seen.insert(link.isUndoing ? "unlink" : "link \(verdict)")
                case (.transfer, let verdict): seen.insert("transfer \(verdict)")
                case (.undoTransfer, let verdict): seen.insert("undo \(verdict)")
                case (.grant, let verdict): seen.insert("grant \(verdict)")
                case (.revokeGrant, let verdict): seen.insert("revoke \(verdict)")
                case (.post, let verdict): seen.insert("post \(verdict)")
                }
            }
            if world.names.contains(where: { $0.environment == .sandbox }) { seen.insert("sandbox") }
            let people = world.names.filter { $0.environment == .production }
            #expect(people.count >= 3, "seed \(seed)")
        }
        #expect(
            seen == [
                "deliver", "post unproven", "post own", "post claimed", "post conflict", "post known_conflict",
                "no proof", "secret key", "customer token", "app transaction", "link accepted", "link refused",
                "unlink", "transfer accepted", "undo accepted", "undo refused", "grant accepted", "revoke accepted",
                "sandbox",
            ])
    }

    @Test("signed statements and app transactions are three segments, and a statement of a notification is its own")
    func signing() throws {
        let authority = try SimulatedAuthority()
        let world = OwnershipWorld.random(seed: 1)
        let notification = try #require(world.notifications.first { $0.transaction != nil })
        let statement = try #require(notification.statement)
        #expect(statement.transaction == notification.transaction)
        #expect(try authority.sign(statement).split(separator: ".").count == 3)
        let app = try authority.signAppTransaction("700000000000000001", .production, world: world.world)
        #expect(app.split(separator: ".").count == 3)
    }
}
