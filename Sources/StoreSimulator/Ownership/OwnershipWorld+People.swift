import SeededRandom

/// Somebody in a random world: a login of the app, and what it buys with.
struct Person: Sendable {
    /// Under which name the app knows this person.
    let customer: CustomerKey
    /// What this person's purchases bear.
    let account: StoreAccount
    /// Whether the purchases are a family member's.
    let isFamilyMember: Bool
    /// What this person bought.
    var originals: [SimulatedOriginalKey] = []
    /// What no notification tells of, so that some device has to.
    var unannounced: [StoreStatement] = []
}

extension Quirks {
    /// Everything, but for statements without a signed date: posted alone they would sort before all others, and no
    /// order of arrival could be told from the story.
    static let dated: Quirks = {
        var quirks = Quirks.some
        quirks.missingSignedDate = 0
        return quirks
    }()
}

extension Storyteller {
    /// Three to eight people of one environment with everything they buy, one of them now and then in the sandbox too.
    mutating func inventPeople(seed: UInt64) -> [Person] {
        var people: [Person] = []
        for number in 0..<Int(random.number(in: 3...8)) {
            var person = inventPerson(number, seed: seed, others: people)
            inventPurchases(of: &person, at: world.start + random.number(in: 0...60 * Span.day))
            people.append(person)
        }
        if random.chance(30), let person = people.first(where: { !$0.originals.isEmpty }) {
            people.append(inventTester(person))
        }
        return people
    }

    private mutating func inventPerson(_ number: Int, seed: UInt64, others: [Person]) -> Person {
        let token = token()
        let nameless = random.chance(50) ? token : "c-\(seed)-\(number)"
        let shared = random.pick(others.compactMap(\.account.appTransactionID) + [newID()])
        let (login, boundToken, appTransactionID): (String?, String?, String?) =
            switch random.number(in: 0...99) {
            case 0..<30: (nil, token, newID())
            case 30..<55: (nil, token, shared)
            case 55..<75: (random.chance(50) ? nameless : nil, nil, newID())
            case 75..<92: (nameless, nil, nil)
            default: (nil, token, nil)
            }
        let account = StoreAccount(.production, appAccountToken: boundToken, appTransactionID: appTransactionID)
        return Person(
            customer: CustomerKey(.production, login ?? account.customerID ?? nameless), account: account,
            isFamilyMember: boundToken == nil && appTransactionID != nil && random.chance(40))
    }

    private mutating func inventPurchases(of person: inout Person, at start: Int64) {
        let account = person.account
        let known = Set(books.keys)
        if person.isFamilyMember {
            let key = subscribe(account, to: StoreWorld.ProductID.proMonthly, at: start, familyShared: true)
            for _ in 0..<random.number(in: 0...3) { renew(key) }
            if random.chance(40), let end = expiry(key) { endSharing(key, at: end - 5 * Span.day) }
        } else {
            if random.chance(50) { inventSubscription(account, group: random.pick(Self.groups), at: start) }
            if random.chance(40) { inventLateIdentity(account, at: start + random.number(in: 1...90 * Span.day)) }
            if random.chance(25) { inventOneTimePurchases(account, at: start + random.number(in: 1...90 * Span.day)) }
        }
        if account.appAccountToken == nil, random.chance(50) {
            let date = start + random.number(in: 1...90 * Span.day)
            buy(account, random.pick([StoreWorld.ProductID.lifetime, StoreWorld.ProductID.season]), at: date)
            person.unannounced.append(loseLastNotification())
        }
        person.originals = books.keys.filter { !known.contains($0) }.sorted()
    }

    /// A subscription of which the store learns only later whose it is, by a later payment or by a newer statement.
    private mutating func inventLateIdentity(_ account: StoreAccount, at start: Int64) {
        var nameless = account
        nameless.appAccountToken = nil
        if random.chance(40) { nameless.appTransactionID = nil }
        let token = account.appAccountToken ?? token()
        let key = subscribe(nameless, to: StoreWorld.ProductID.newsMonthly, at: start)
        for _ in 0..<random.number(in: 0...2) { renew(key) }
        let instant = book(key).last.begin + random.number(in: Span.hour...20 * Span.day)
        switch random.number(in: 0...3) {
        case 0: renew(key, token: token)
        case 1 where nameless.appTransactionID == nil:
            identify(key, appTransactionID: account.appTransactionID ?? newID(), at: instant)
        case 2 where paymentCount(key) > 1:
            identify(key, payment: book(key).last.number - 1, token: token, at: instant)
        default: identify(key, token: token, at: instant)
        }
        for _ in 0..<random.number(in: 0...2) { renew(key) }
    }

    /// The same person in the sandbox, with the same ids.
    private mutating func inventTester(_ person: Person) -> Person {
        var account = person.account
        account.environment = .sandbox
        var tester = Person(
            customer: CustomerKey(.sandbox, person.customer.customerID), account: account,
            isFamilyMember: person.isFamilyMember)
        inventNamesake(of: person.originals[0], person.account, at: world.start)
        tester.originals = [SimulatedOriginalKey(.sandbox, person.originals[0].originalTransactionID)]
        return tester
    }
}
