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
    /// The most questions of one statement; further ones are asked beside it.
    private static let questionsPerStatement = 64

    package func load(_ questions: [LedgerQuestion]) async -> [Result<LoadedCustomer, any Error>] {
        await withTaskGroup(of: (Int, [Result<LoadedCustomer, any Error>]).self) { group in
            let starts = stride(from: 0, to: questions.count, by: Self.questionsPerStatement)
            for start in starts {
                let part = Array(questions[start..<min(start + Self.questionsPerStatement, questions.count)])
                group.addTask { (start, await loadAtOnce(part)) }
            }
            var parts: [Int: [Result<LoadedCustomer, any Error>]] = [:]
            for await (start, part) in group { parts[start] = part }
            return starts.flatMap { parts[$0] ?? [] }
        }
    }

    private func loadAtOnce(_ questions: [LedgerQuestion]) async -> [Result<LoadedCustomer, any Error>] {
        do {
            return zip(try await snapshots(questions), questions).map { .success(LoadedCustomer($0, of: $1)) }
        } catch {
            return questions.map { _ in .failure(error) }
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
                    identities: snapshot.connected.union([number, facts.customer]),
                    originals: Set(facts.originals.keys))
            })
    }
}
