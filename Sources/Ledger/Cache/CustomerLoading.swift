package import EntitlementCore

/// A customer as the ledger stands, and what that depends on.
package struct LoadedCustomer: Sendable {
    /// The position everything rests on.
    package let position: Int64
    package let facts: CustomerFacts
    /// The position at which the catalog was written; 0 before any.
    package let catalogPosition: Int64
    /// `nil` for somebody whom the ledger has never heard of: no event could be told to be about them.
    package let dependencies: CustomerDependencies?

    /// A customer as somebody has read it.
    package init(
        position: Int64, facts: CustomerFacts, catalogPosition: Int64, dependencies: CustomerDependencies?
    ) {
        self.position = position
        self.facts = facts
        self.catalogPosition = catalogPosition
        self.dependencies = dependencies
    }
}

/// Reads many customers at once.
package protocol CustomerLoading: Sendable {
    /// The customers of some questions, in their order; each rests on a position read after this was called.
    func load(_ questions: [LedgerQuestion]) async -> [Result<LoadedCustomer, any Error>]
}

extension LedgerReader: CustomerLoading {
    /// The most questions asked at the same time, so that others get their turn at the pool's connections.
    private static let concurrentLoads = 4

    package func load(_ questions: [LedgerQuestion]) async -> [Result<LoadedCustomer, any Error>] {
        await withTaskGroup(of: (Int, Result<LoadedCustomer, any Error>).self) { group in
            var answers = [Result<LoadedCustomer, any Error>?](repeating: nil, count: questions.count)
            for (index, question) in questions.enumerated() {
                if index >= Self.concurrentLoads, let (done, answer) = await group.next() { answers[done] = answer }
                group.addTask {
                    do {
                        return (index, .success(LoadedCustomer(try await snapshot(question), of: question)))
                    } catch {
                        return (index, .failure(error))
                    }
                }
            }
            for await (done, answer) in group { answers[done] = answer }
            return answers.compactMap(\.self)
        }
    }
}

extension LoadedCustomer {
    init(_ snapshot: LedgerSnapshot, of question: LedgerQuestion) {
        let facts = snapshot.facts
        let number = question.customer.flatMap { snapshot.identities[ExactText($0.value)] }
        self.init(
            position: snapshot.position, facts: facts, catalogPosition: snapshot.catalogPosition,
            dependencies: number.map { number in
                CustomerDependencies(
                    identities: facts.ownership.linkedIdentities.union([number, facts.customer]),
                    originals: Set(facts.originals.keys))
            })
    }
}
