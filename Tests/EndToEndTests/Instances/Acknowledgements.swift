import SeededRandom

/// What was acknowledged to the writers of a load, and so must be in every answer to a request that is sent later.
///
/// Everything that somebody can hold has an entitlement of its own, so an answer tells of each whether it is held.
actor Acknowledgements {
    /// Something that somebody holds, and nobody is changing at this moment.
    struct Holding: Sendable {
        enum Kind: Sendable {
            case grant(id: String)
            case purchase
        }

        let entitlement: String
        let kind: Kind
        /// Whose purchase it was; signed statements name that customer for ever.
        let buyer: Int
        var holder: Int
    }

    /// What must be true of an answer about one customer.
    struct Expectation: Sendable {
        let position: Int64
        let held: Set<String>
        let gone: Set<String>
        /// The last catalog acknowledged, and the last that was sent.
        let catalog: Int
        let catalogSent: Int
    }

    /// Who held an entitlement, or had lost it, at the position of the event that says so.
    struct Record: Sendable {
        let position: Int64
        let customer: Int
        let entitlement: String
        let isHeld: Bool
    }

    private(set) var position: Int64 = 0
    private var held: [Set<String>]
    private var gone: [Set<String>]
    private var settled: [String: Holding] = [:]
    private var records: [Record] = []
    private var launches: [[[UInt8]]]
    private var catalog = 0
    private var catalogSent = 0
    private var pastAnswers: [String: String] = [:]
    private(set) var operations = 0

    init(customers: Int) {
        held = Array(repeating: [], count: customers)
        gone = Array(repeating: [], count: customers)
        launches = Array(repeating: [], count: customers)
    }

    func expectation(of customer: Int) -> Expectation {
        Expectation(
            position: position, held: held[customer], gone: gone[customer], catalog: catalog, catalogSent: catalogSent)
    }

    /// Takes something out that nobody else changes until it is given back; `nil` where nothing is settled.
    ///
    /// From now on an answer may show it or not.
    func take(at random: UInt64) -> Holding? {
        guard !settled.isEmpty else { return nil }
        let name = settled.keys.sorted()[Int(random % UInt64(settled.count))]
        guard let holding = settled.removeValue(forKey: name) else { return nil }
        held[holding.holder].remove(name)
        return holding
    }

    /// Somebody holds something from here on.
    ///
    /// - Parameter isExact: whether `position` is that of the event, and not only one that has seen it.
    func gained(_ holding: Holding, at position: Int64, isExact: Bool = true, canBeTaken: Bool = true) {
        note(position)
        held[holding.holder].insert(holding.entitlement)
        if canBeTaken { settled[holding.entitlement] = holding }
        if isExact { record(holding, holding.holder, isHeld: true, position) }
    }

    /// Whoever held it does so no longer, and never will again.
    func lost(_ holding: Holding, at position: Int64) {
        note(position)
        gone[holding.holder].insert(holding.entitlement)
        record(holding, holding.holder, isHeld: false, position)
    }

    func willSendCatalog() -> Int {
        catalogSent += 1
        return catalogSent
    }

    func catalogApplied(_ number: Int, at position: Int64) {
        note(position)
        catalog = number
    }

    /// A body that a device of a customer has posted, to be posted again.
    func posted(_ body: [UInt8], by customer: Int) {
        launches[customer].append(body)
        if launches[customer].count > 6 { launches[customer].removeFirst() }
    }

    func launch(of customer: Int, at random: UInt64) -> [UInt8]? {
        launches[customer].isEmpty ? nil : launches[customer][Int(random % UInt64(launches[customer].count))]
    }

    func record(at random: UInt64) -> Record? {
        records.isEmpty ? nil : records[Int(random % UInt64(records.count))]
    }

    /// Whether an answer about the past is the one that was given to this question before, or the first.
    func isUnchanged(_ body: String, to question: String) -> Bool {
        guard let known = pastAnswers[question] else {
            pastAnswers[question] = body
            return true
        }
        return known == body
    }

    private func note(_ position: Int64) {
        self.position = max(self.position, position)
        operations += 1
    }

    private func record(_ holding: Holding, _ customer: Int, isHeld: Bool, _ position: Int64) {
        records.append(
            Record(position: position, customer: customer, entitlement: holding.entitlement, isHeld: isHeld))
    }
}
