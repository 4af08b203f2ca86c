import SeededRandom

extension OwnershipWorld {
    /// A world made up at random; equal seeds give equal worlds.
    ///
    /// Ids of seeds that differ modulo a million never meet, so several worlds fit into one ledger.
    ///
    /// - Parameter storeFirst: whether everything the store sends arrives before anything else happens.
    package static func random(
        seed: UInt64, world: StoreWorld = .standard, storeFirst: Bool = false
    ) -> OwnershipWorld {
        var storyteller = OwnershipStoryteller(world: world, seed: seed)
        storyteller.store.quirks = .dated
        storyteller.store.latency = 20 * Span.second
        let people = storyteller.store.inventPeople(seed: seed)
        var chance = OwnershipChance(seed: seed, people: people, store: &storyteller.store)
        storyteller.beginToWatch()
        chance.live(&storyteller, storeFirst: storeFirst)
        return OwnershipWorld(seed: seed, storyteller)
    }
}

/// Chooses what people do, and when, among what is possible at each step.
struct OwnershipChance: Sendable {
    let seed: UInt64
    let people: [Person]
    /// What devices may hold: whatever was signed of a transaction, in the order of signing.
    private(set) var statements: [StoreStatement]
    var random: SplitMix64
    /// The steps that made a transfer, and by which customer's route.
    var transfers: [OwnershipStep.Undoing] = []
    /// The steps that made a grant which was not revoked.
    var grants: [OwnershipStep.Undoing] = []

    init(seed: UInt64, people: [Person], store: inout Storyteller) {
        self.seed = seed
        self.people = people
        // Another sequence than that of the lives, so that a change in one leaves the other alone.
        random = SplitMix64(seed: seed ^ 0x0573_E95E_ED00_0001)
        statements = store.notifications.compactMap(\.statement) + people.flatMap(\.unannounced)
        for key in people.flatMap(\.originals) where random.chance(40) {
            let payment = Int(random.number(in: 0...Int64(store.paymentCount(key) - 1)))
            let date = store.book(key).lastSignedDate + random.number(in: 1...10 * Span.day)
            statements.append(store.deviceStatement(key, payment: payment, at: date))
        }
        statements.sort {
            ($0.testimony.signedDate, $0.testimony.key, $0.testimony.payment)
                < ($1.testimony.signedDate, $1.testimony.key, $1.testimony.payment)
        }
    }

    /// Deliveries and everything else, in the order of their instants.
    mutating func live(_ storyteller: inout OwnershipStoryteller, storeFirst: Bool) {
        let style = random.pick([DeliveryStyle.inOrder, .shuffled, .duplicated, .delayed, .chaotic])
        let arrivals = Delivery.plan(storyteller.store.notifications, style, seed: seed)
        let last = arrivals.last?.instant ?? storyteller.store.world.start
        let first = storeFirst ? last : arrivals.first?.instant ?? last
        var instants = (0..<random.number(in: 10...30)).map { _ in
            random.number(in: first...last + 60 * Span.day)
        }.sorted()
        for arrival in arrivals {
            while let instant = instants.first, instant < arrival.instant {
                act(&storyteller, at: instants.removeFirst())
            }
            storyteller.add(.deliver(notification: arrival.index), at: arrival.instant)
        }
        while !instants.isEmpty { act(&storyteller, at: instants.removeFirst()) }
        postWhatNobodyHasPosted(&storyteller, at: last + 61 * Span.day)
    }

    /// What was never announced has to be known in the end, for the record tells of it.
    private mutating func postWhatNobodyHasPosted(_ storyteller: inout OwnershipStoryteller, at instant: Int64) {
        for person in people {
            for statement in person.unannounced where !isPosted(statement, storyteller.steps) {
                let neighbours = people.filter { $0.customer.environment == person.customer.environment }
                let poster = random.chance(70) ? person : random.pick(neighbours)
                storyteller.post(
                    [statement], as: poster.customer, proof: random.pick([.none, .secretKey, .customerToken]),
                    at: instant)
            }
        }
    }

    /// A post whose proof may turn out to be somebody else's does not count: a service may turn it away altogether.
    private func isPosted(_ statement: StoreStatement, _ steps: [OwnershipStep]) -> Bool {
        steps.contains { step in
            guard case .post(let post) = step.deed else { return false }
            if case .appTransaction = post.proof { return false }
            return post.statements.contains(statement)
        }
    }

    /// Something happens, if what chance picked is possible.
    private mutating func act(_ storyteller: inout OwnershipStoryteller, at instant: Int64) {
        switch random.number(in: 0...99) {
        case 0..<28: postOwn(&storyteller, at: instant)
        case 28..<46: postCopied(&storyteller, at: instant)
        case 46..<60: link(&storyteller, at: instant)
        case 60..<65: unlink(&storyteller, at: instant)
        case 65..<68: closeCircle(&storyteller, at: instant)
        case 68..<80: transfer(&storyteller, at: instant)
        case 80..<87: undoTransfer(&storyteller, at: instant)
        case 87..<95: grant(&storyteller, at: instant)
        default: revokeGrant(&storyteller, at: instant)
        }
    }
}
