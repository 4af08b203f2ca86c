import Foundation

/// One original transaction in one environment.
package struct SimulatedOriginalKey: Sendable, Hashable, Comparable {
    /// The environment.
    package let environment: SimulatedStoreEnvironment
    /// The store's original transaction id.
    package let originalTransactionID: String

    /// Names an original transaction.
    package init(_ environment: SimulatedStoreEnvironment, _ originalTransactionID: String) {
        self.environment = environment
        self.originalTransactionID = originalTransactionID
    }

    package static func < (left: SimulatedOriginalKey, right: SimulatedOriginalKey) -> Bool {
        (left.environment.rawValue, left.originalTransactionID)
            < (right.environment.rawValue, right.originalTransactionID)
    }
}

/// One customer in one environment.
package struct CustomerKey: Sendable, Hashable, Comparable {
    /// The environment.
    package let environment: SimulatedStoreEnvironment
    /// The customer id: an account token in lower case, `apple:` and an app transaction id, or the app's own id.
    package let customerID: String

    /// Names a customer; an id that is a UUID is taken in lower case.
    package init(_ environment: SimulatedStoreEnvironment, _ customerID: String) {
        self.environment = environment
        self.customerID = UUID(uuidString: customerID) == nil ? customerID : customerID.lowercased()
    }

    package static func < (left: CustomerKey, right: CustomerKey) -> Bool {
        (left.environment.rawValue, left.customerID) < (right.environment.rawValue, right.customerID)
    }
}

/// Who is entitled to what, when and in which state: the truth of a simulated life.
///
/// The storyteller writes it while it invents the life, one chapter for each payment; it never looks at a payload.
/// Whoever reads the payloads instead must arrive at the same answers.
package struct Record: Sendable {
    /// What products mean, and the access policy; both apply to all instants, so a reader may exchange them.
    package var world: StoreWorld
    /// The stories of all original transactions.
    package private(set) var stories: [SimulatedOriginalKey: Story] = [:]
    /// What people did about whose it is.
    package internal(set) var ownership = Ownership()
    /// What was bought on the web: customers hold it beside what the App Store sold them.
    package var web = WebRecord()

    /// An empty record of that world.
    package init(world: StoreWorld) {
        self.world = world
    }

    /// All customers who own or owned something, in order; aliases are not among them.
    package var customers: [CustomerKey] {
        let owners = stories.flatMap { key, story in
            story.chapters.compactMap { $0.owner.map { CustomerKey(key.environment, $0) } }
        }
        return Set((owners + ownership.holders + web.owners).map(ownership.customer)).sorted()
    }

    /// The original transactions of which at least one period is nobody's, in order.
    package var unclaimed: [SimulatedOriginalKey] {
        stories.filter { key, story in
            ownership.claims[key] == nil && story.chapters.contains { $0.owner == nil }
        }.keys.sorted()
    }

    /// The original transactions of which a customer owns or owned at least one period.
    package func originals(of customer: CustomerKey) -> [SimulatedOriginalKey] {
        let customer = ownership.customer(customer)
        return stories.filter { key, story in
            story.chapters.contains { !tenures(of: $0, in: key, by: customer).isEmpty }
        }.keys.sorted()
    }
}

extension Record {
    /// The life of one original transaction.
    package struct Story: Sendable, Equatable {
        /// Whether it is a purchase that never renews.
        package let isOneTime: Bool
        /// Whether a family member paid, whose purchase is another one.
        package let isFamilyShared: Bool
        /// One chapter for each payment, in the order in which they begin.
        package fileprivate(set) var chapters: [Chapter] = []
        /// What the store said of auto-renewal, in the order in which it was signed.
        package fileprivate(set) var renewalNotes: [RenewalNote] = []
    }

    /// What one payment gave.
    package struct Chapter: Sendable, Equatable {
        /// The customer whom its own identity names, before links, claims and transfers; nil without an identity.
        package fileprivate(set) var owner: String?
        /// What was bought.
        package let productID: String
        /// The instant from which it counts.
        package let begin: Int64
        /// Whether nothing was to be paid, to try it.
        package let isTrial: Bool
        /// Whether it goes on with the chapter before, as far as the store says: where it is silent, the same product does.
        package let isRenewal: Bool
        /// How long the payment lasts.
        package fileprivate(set) var paid: Paid
        /// The stages it goes through, each up to the next one; left to the reader for catalog durations.
        package fileprivate(set) var stages: [Stage]
        /// A refund or a family revocation that stands.
        package fileprivate(set) var withdrawal: Withdrawal?
        /// What was paid for it.
        package let charge: Charge
    }

    /// What was paid, and when.
    package struct Charge: Sendable, Equatable {
        package let at: Int64
        /// In thousandths of the currency; nil where the store does not say.
        package let amount: Int64?
        package let currency: String
    }

    /// How long a payment lasts.
    package enum Paid: Sendable, Equatable {
        case until(Int64)
        case forever
        case catalogDuration
    }

    /// A stretch of a chapter, up to the next stage.
    package struct Stage: Sendable, Equatable {
        /// Its first instant.
        package let from: Int64
        /// What holds in it.
        package let condition: Condition
    }

    /// What can hold in a stage.
    package enum Condition: Sendable, Equatable {
        case active
        case inGracePeriod
        case inBillingRetry
        /// The time paid for is over, and nobody said a word about billing problems.
        case ranOut
        case expired
    }

    /// Money that went back, or sharing that ended.
    package struct Withdrawal: Sendable, Equatable {
        /// The revocation date.
        package let date: Int64
        /// Whether only a part was paid back.
        package let isProrated: Bool
        /// How much was paid back, in thousandths of a percent; nil where nothing was.
        package let part: Int64?
    }

    /// What the store said of auto-renewal at one instant.
    package struct RenewalNote: Sendable, Equatable {
        /// The instant it was signed.
        package let signedDate: Int64
        /// Whether the subscription was going to renew.
        package let willRenew: Bool
    }
}

// What the storyteller writes.
extension Record {
    /// A payment opens a chapter.
    ///
    /// - Returns: the number of the chapter.
    mutating func open(
        _ key: SimulatedOriginalKey, owner: String?, productID: String, begin: Int64, paid: Paid, isOneTime: Bool,
        isFamilyShared: Bool, isTrial: Bool, reason: String?, charge: Charge
    ) -> Int {
        let before = stories[key]?.chapters.last
        var stages = [Stage(from: begin, condition: .active)]
        if case .until(let end) = paid { stages.append(Stage(from: end, condition: .ranOut)) }
        let chapter = Chapter(
            owner: owner, productID: productID, begin: begin, isTrial: isTrial,
            isRenewal: reason.map { $0 == "RENEWAL" } ?? (before?.productID == productID), paid: paid, stages: stages,
            charge: charge)
        stories[key, default: Story(isOneTime: isOneTime, isFamilyShared: isFamilyShared)].chapters.append(chapter)
        return (stories[key]?.chapters.count ?? 1) - 1
    }

    /// From an instant on a chapter goes another way than was told before.
    mutating func rewrite(_ key: SimulatedOriginalKey, chapter: Int, from: Int64, as stages: [Stage]) {
        let kept = stories[key]?.chapters[chapter].stages.filter { $0.from < from } ?? []
        stories[key]?.chapters[chapter].stages = kept + stages
    }

    /// The store moves the end of a chapter that has not ended.
    mutating func extend(_ key: SimulatedOriginalKey, chapter: Int, to end: Int64) {
        guard let begin = stories[key]?.chapters[chapter].begin else { return }
        stories[key]?.chapters[chapter].paid = .until(end)
        stories[key]?.chapters[chapter].stages = [
            Stage(from: begin, condition: .active), Stage(from: end, condition: .ranOut),
        ]
    }

    /// Money goes back, or with nil: the refund is taken back and the chapter reads whole again.
    mutating func withdraw(_ key: SimulatedOriginalKey, chapter: Int, _ withdrawal: Withdrawal?) {
        stories[key]?.chapters[chapter].withdrawal = withdrawal
    }

    /// The store states whether a subscription is going to renew.
    mutating func noteRenewal(_ key: SimulatedOriginalKey, signedDate: Int64, willRenew: Bool) {
        stories[key]?.renewalNotes.append(RenewalNote(signedDate: signedDate, willRenew: willRenew))
    }

    /// A statement was never told to anybody but devices, which hold no word on auto-renewal.
    mutating func forgetRenewalNote(_ key: SimulatedOriginalKey, signedDate: Int64) {
        stories[key]?.renewalNotes.removeAll { $0.signedDate == signedDate }
    }

    /// The store names somebody for a payment that was made without a name, or under another.
    mutating func name(_ key: SimulatedOriginalKey, chapter: Int, owner: String?) {
        stories[key]?.chapters[chapter].owner = owner
    }
}
