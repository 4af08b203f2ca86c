import SeededRandom

// What people do in a random world; nothing where it is not possible yet.
extension OwnershipChance {
    /// A device posts some of what was bought on it.
    mutating func postOwn(_ storyteller: inout OwnershipStoryteller, at instant: Int64) {
        let person = random.pick(people)
        let own = Set(person.originals)
        let held = held(at: instant) { own.contains($0.key) }
        if !held.isEmpty { post(held, as: person, &storyteller, at: instant) }
    }

    /// A thief posts something copied from another's device, perhaps beside something of the thief's own.
    mutating func postCopied(_ storyteller: inout OwnershipStoryteller, at instant: Int64) {
        let person = random.pick(people)
        let own = Set(person.originals)
        let held = held(at: instant) { !own.contains($0.key) && $0.key.environment == person.customer.environment }
        if !held.isEmpty { post(held, as: person, &storyteller, at: instant) }
    }

    /// One to three statements that were signed by then, each about another payment.
    private mutating func held(at instant: Int64, _ isWanted: (Testimony) -> Bool) -> [StoreStatement] {
        let signed = statements.filter { $0.testimony.signedDate <= instant && isWanted($0.testimony) }
        var held: [StoreStatement] = []
        for statement in random.shuffled(signed).prefix(Int(random.number(in: 1...3))) {
            let (key, payment) = (statement.testimony.key, statement.testimony.payment)
            if !held.contains(where: { $0.testimony.key == key && $0.testimony.payment == payment }) {
                held.append(statement)
            }
        }
        return held
    }

    mutating func post(
        _ statements: [StoreStatement], as person: Person, _ storyteller: inout OwnershipStoryteller,
        at instant: Int64
    ) {
        let accounts = people.compactMap(\.account.appTransactionID)
        let proof: OwnershipStep.Proof =
            switch random.number(in: 0...99) {
            case 0..<35: .customerToken
            case 35..<60: .secretKey
            case 60..<80: person.account.appTransactionID.map { .appTransaction($0) } ?? .secretKey
            case 80..<86 where !accounts.isEmpty: .appTransaction(random.pick(accounts))
            default: .none
            }
        storyteller.post(statements, as: person.customer, proof: proof, at: instant)
    }

    /// A login takes over what an Apple account, another login or another customer holds.
    mutating func link(_ storyteller: inout OwnershipStoryteller, at instant: Int64) {
        let person = random.pick(people)
        let others = people.filter {
            $0.customer.environment == person.customer.environment && $0.customer != person.customer
        }
        guard !others.isEmpty else { return }
        let other = random.pick(others)
        var names = [OwnershipStep.LinkedName.customerID(other.customer.customerID)]
        if let token = other.account.appAccountToken { names.append(.appAccountToken(token)) }
        if let id = other.account.appTransactionID { names.append(.appTransactionID(id)) }
        if let id = person.account.appTransactionID {
            // The most usual of all: a login takes over what was bought before it existed.
            names += [.appTransactionID(id), .appTransactionID(id)]
        }
        let name = random.pick(names.filter { $0.customer(person.customer.environment) != person.customer })
        storyteller.link(name, to: person.customer, at: instant)
    }

    mutating func unlink(_ storyteller: inout OwnershipStoryteller, at instant: Int64) {
        let aliases = storyteller.watched.ownership.aliases.keys.sorted()
        guard !aliases.isEmpty else { return }
        let alias = random.pick(aliases)
        storyteller.link(name(of: alias), to: alias, at: instant)
    }

    /// A link that leads back to where it began.
    mutating func closeCircle(_ storyteller: inout OwnershipStoryteller, at instant: Int64) {
        let aliases = storyteller.watched.ownership.aliases.sorted { $0.key < $1.key }
        guard !aliases.isEmpty else { return }
        let (alias, meant) = random.pick(aliases)
        storyteller.link(name(of: meant), to: alias, at: instant)
    }

    /// The body's member that names a default customer.
    private func name(of customer: CustomerKey) -> OwnershipStep.LinkedName {
        let id = customer.customerID
        if id.hasPrefix("apple:") { return .appTransactionID(String(id.dropFirst(6))) }
        if people.contains(where: { $0.account.appAccountToken == id }) { return .appAccountToken(id) }
        return .customerID(id)
    }

    mutating func transfer(_ storyteller: inout OwnershipStoryteller, at instant: Int64) {
        guard let watch = storyteller.watch else { return }
        let known = watch.knownOriginals
        guard !known.isEmpty else { return }
        let original = random.pick(known)
        guard let from = watch.presentHolder(of: original) else { return }
        let stranger = CustomerKey(original.environment, "c-\(seed)-stranger-\(storyteller.steps.count)")
        let others = people.map(\.customer).filter { customer in
            customer.environment == original.environment
                && watch.record.ownership.customer(customer) != watch.record.ownership.customer(from)
        }
        let to = random.pick(others + [stranger])
        let step = storyteller.transfer(original, from: from, to: to, at: instant)
        transfers.append(OwnershipStep.Undoing(customer: from, step: step))
    }

    /// A transfer is undone: now and then one that is not the latest, or was undone before, which is refused.
    mutating func undoTransfer(_ storyteller: inout OwnershipStoryteller, at instant: Int64) {
        guard let last = transfers.last else { return }
        let transfer = random.chance(60) ? last : random.pick(transfers)
        storyteller.undoTransfer(transfer.step, transfer.customer, at: instant)
    }

    mutating func grant(_ storyteller: inout OwnershipStoryteller, at instant: Int64) {
        let customer = random.pick(people).customer
        let lasting: Int64? = random.chance(40) ? nil : random.number(in: 1...200) * Span.day
        let step = storyteller.grant(
            random.pick(["premium", "plus", "news", "season"]), to: customer, lasting: lasting, at: instant)
        grants.append(OwnershipStep.Undoing(customer: customer, step: step))
    }

    mutating func revokeGrant(_ storyteller: inout OwnershipStoryteller, at instant: Int64) {
        guard !grants.isEmpty else { return }
        let grant = grants.remove(at: Int(random.number(in: 0...Int64(grants.count - 1))))
        storyteller.revokeGrant(grant.step, grant.customer, at: instant)
    }
}
