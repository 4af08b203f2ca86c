import SeededRandom

/// A life on the web that was told: what Stripe has in its books, and what is true.
package struct WebLife: Sendable {
    package let seed: UInt64
    package let world: StoreWorld
    package let environment: SimulatedStoreEnvironment
    /// The truth; its App Store part is empty.
    package let record: Record
    package let books: StripeBooks
    /// When the last thing was told, in milliseconds since 1970.
    package let end: Int64

    /// Closes a story.
    package init(_ storyteller: WebStoryteller, world: StoreWorld = .standardOnWeb, seed: UInt64) {
        self.seed = seed
        self.world = world
        environment = storyteller.environment
        var record = Record(world: world)
        record.web = storyteller.record
        self.record = record
        books = storyteller.books
        end = (storyteller.books.events.map(\.created).max() ?? world.start) + Span.day
    }

    /// What Stripe tells of, in the order in which it happened.
    package var events: [StripeEventEntry] {
        books.events.enumerated().sorted {
            ($0.element.created, $0.offset) < ($1.element.created, $1.offset)
        }.map(\.element)
    }

    /// The lives of some customers, made up at random; equal seeds give equal lives, and ids of seeds that differ never meet.
    ///
    /// - Parameters:
    ///   - customers: our own ids of them.
    ///   - isReadable: nothing happens that no object tells: no money comes back once a dispute was lost.
    package static func random(
        seed: UInt64, world: StoreWorld = .standardOnWeb, environment: SimulatedStoreEnvironment = .production,
        customers: [String], isReadable: Bool = false
    ) -> WebLife {
        var storyteller = WebStoryteller(environment, seed: seed)
        storyteller.isReadable = isReadable
        storyteller.upgradedAt = world.start + storyteller.random.number(in: 0...400) * Span.day
        storyteller.namesItemsOfProrations = storyteller.random.chance(70)
        for customer in customers { storyteller.inventCustomer(customer, others: customers, from: world.start) }
        return WebLife(storyteller, world: world, seed: seed)
    }

    /// Lives that are over by an instant, whole weeks before; equal seeds and instants give equal lives.
    package static func recent(
        seed: UInt64, world: StoreWorld = .standardOnWeb, customers: [String], until instant: Int64,
        isReadable: Bool = false
    ) -> WebLife {
        let standard = random(seed: seed, world: world, customers: customers, isReadable: isReadable)
        var world = world
        // Months differ in length, and so do lives that are moved.
        world.start = (instant - (standard.end - world.start) - 40 * Span.day) / 1000 * 1000
        return random(seed: seed, world: world, customers: customers, isReadable: isReadable)
    }
}

extension SplitMix64 {
    /// A length of time in whole seconds, in milliseconds.
    mutating func seconds(in range: ClosedRange<Int64>) -> Int64 {
        number(in: range.lowerBound / 1000...range.upperBound / 1000) * 1000
    }
}

extension WebStoryteller {
    /// One customer with everything that is bought on the web.
    mutating func inventCustomer(_ customer: String, others: [String], from start: Int64) {
        let start = start + random.seconds(in: 0...90 * Span.day)
        let buyer = buyer(customer, at: start - Span.hour)
        inventSubscription(buyer, others: others, at: start)
        if random.chance(35) {
            inventSubscription(buyer, others: others, at: start + random.seconds(in: Span.day...200 * Span.day))
        }
        for _ in 0..<random.number(in: 0...2) {
            inventPurchase(buyer, others: others, at: start + random.seconds(in: Span.day...300 * Span.day))
        }
        if random.chance(30) {
            let abandoned = open([SimulatedShop.proMonthly], WebNames(customer), at: start + Span.day)
            expire(abandoned, at: start + 2 * Span.day)
        }
    }

    /// Where the customer's id is written: mostly everywhere, and sometimes by somebody's hand.
    mutating func inventNames(_ customer: String, others: [String]) -> WebNames {
        var names = WebNames(customer)
        names.namesProduct = random.chance(70)
        switch random.number(in: 0...99) {
        case 0..<55: break
        case 55..<63: (names.session, names.clientReference) = (nil, nil)
        case 63..<71: (names.purchase, names.clientReference) = (nil, nil)
        case 71..<78: (names.purchase, names.session) = (nil, nil)
        case 78..<84: names.session = random.pick(others)
        case 84..<88:
            names = WebNames(nil)
            names.namesProduct = false
        case 88..<91: names.purchase = String(repeating: "x", count: 300)
        case 91..<95: names.purchase = customer.uppercased() == customer ? customer : Self.shouted(customer)
        default: names.clientReference = random.pick(others)
        }
        return names
    }

    /// A UUID in upper case is the same customer; any other id would be another.
    private static func shouted(_ customer: String) -> String {
        CustomerKey(.production, customer.uppercased()).customerID == customer ? customer.uppercased() : customer
    }

    private mutating func inventPurchase(_ buyer: WebBuyer, others: [String], at instant: Int64) {
        let names = inventNames(buyer.customerID, others: others)
        let price = random.pick([
            SimulatedShop.lifetime, SimulatedShop.season, SimulatedShop.season, SimulatedShop.term,
            SimulatedShop.dayPass, SimulatedShop.proOnce, SimulatedShop.strangeOnce,
        ])
        let settling: Settling =
            switch random.number(in: 0...9) {
            case 0: .free
            case 1: .after(random.seconds(in: Span.hour...6 * Span.day))
            case 2: .neverAfter(random.seconds(in: Span.hour...6 * Span.day))
            default: .atOnce
            }
        let buyer = random.chance(20) ? WebBuyer(customerID: buyer.customerID, stripeID: nil) : buyer
        let payment = buy(buyer, price, settling, at: instant, names: names)
        guard let charge = charge(of: payment), random.chance(40) else { return }
        giveBack(charge, at: instant + random.seconds(in: 7 * Span.day...60 * Span.day))
    }

    /// A refund in one or several parts, or a dispute.
    mutating func giveBack(_ charge: String, at instant: Int64) {
        let whole = left(of: charge)
        switch random.number(in: 0...9) {
        case 0..<4: refund(charge, nil, random.pick(RefundCourse.allCases), at: instant)
        case 4: refund(charge, max(1, whole / 3), random.pick(RefundCourse.allCases), at: instant)
        case 5:
            refund(charge, max(1, whole / 2), .succeeds, at: instant)
            refund(charge, nil, .succeeds, at: instant + random.seconds(in: Span.hour...9 * Span.day))
        default:
            let courses = DisputeCourse.allCases.filter { $0 != .reinstated || !isReadable }
            dispute(charge, random.pick(courses), at: instant)
        }
    }
}
