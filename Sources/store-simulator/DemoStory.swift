import StoreSimulator

/// A few customers' lives, so recent that each is at another point now.
struct DemoStory {
    /// Somebody in the story.
    struct Person {
        let name: String
        let account: StoreAccount

        var customerID: String { account.customerID ?? "" }

        /// A customer whose id is easy to type.
        fileprivate init(_ name: String, number: Int) {
            self.name = name
            account = StoreAccount(
                .production, appAccountToken: "00000000-0000-4000-8000-00000000000\(number)",
                appTransactionID: "70000000000000000\(number)")
        }
    }

    /// Something that happens, and what the store sends about it.
    struct Step {
        let line: String
        let notification: StoreNotification
    }

    static let world = StoreWorld.standard
    static let ann = Person("Ann", number: 1)
    static let bob = Person("Bob", number: 2)
    static let cleo = Person("Cleo", number: 3)
    static let dan = Person("Dan", number: 4)
    static let people = [ann, bob, cleo, dan]

    /// In the order of time.
    let steps: [Step]

    /// Tells the story that leads up to `now`; the same instant gives the same story.
    init(now: Int64) {
        var teller = Teller(now: now)
        teller.tellAnn()
        teller.tellBob()
        teller.tellCleo()
        teller.tellDan()
        steps = teller.steps.sorted { $0.notification.signedDate < $1.notification.signedDate }
    }
}

private struct Teller {
    let now: Int64
    private(set) var steps: [DemoStory.Step] = []
    private var story = Storyteller(world: DemoStory.world, seed: 900_001)

    init(now: Int64) { self.now = now }

    private func daysAgo(_ days: Int64) -> Int64 { now - days * Span.day }

    private mutating func note(_ line: String) {
        if let last = story.notifications.last { steps.append(DemoStory.Step(line: line, notification: last)) }
    }

    mutating func tellAnn() {
        let key = story.subscribe(
            DemoStory.ann.account, to: StoreWorld.ProductID.proMonthly, at: daysAgo(45))
        note("Ann buys the monthly plan")
        story.renew(key)
        note("Ann's plan renews")
    }

    mutating func tellBob() {
        let key = story.subscribe(
            DemoStory.bob.account, to: StoreWorld.ProductID.proMonthly, at: daysAgo(34))
        note("Bob buys the monthly plan")
        let end = story.expiry(key) ?? now
        story.failToRenew(key, at: end, graceEnd: end + 16 * Span.day)
        note("Bob's card is declined; the store gives him 16 days of grace")
    }

    mutating func tellCleo() {
        let key = story.subscribe(
            DemoStory.cleo.account, to: StoreWorld.ProductID.proYearly, at: daysAgo(20))
        note("Cleo buys the yearly plan")
        story.refund(key, at: daysAgo(2))
        note("Cleo is given her money back")
    }

    mutating func tellDan() {
        let key = story.subscribe(
            DemoStory.dan.account, to: StoreWorld.ProductID.proMonthly, at: daysAgo(40))
        note("Dan buys the monthly plan")
        story.failToRenew(key, at: story.expiry(key) ?? now)
        note("Dan's card is declined; there is no grace, the store tries again")
    }
}
