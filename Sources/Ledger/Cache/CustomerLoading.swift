package import EntitlementCore

/// A customer as the ledger stands, and what that depends on.
package struct LoadedCustomer: Sendable {
    /// The end of the log at which everything was read.
    package let mark: EventMark
    package let facts: CustomerFacts
    /// The ledger's number for the customer; `nil` for somebody whom nothing recorded names.
    package let identity: IdentityRef?
    package let dependencies: CustomerDependencies
}

extension LedgerReader {
    /// The most questions of one statement; further ones are asked beside it.
    private static let questionsPerStatement = 64

    /// The customers of some questions, in their order; each rests on a position read after this was called.
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
        let identity = question.customer.flatMap { snapshot.identities[ExactText($0.value)] }
        let dependencies =
            if let identity {
                CustomerDependencies(
                    identities: snapshot.connected.union([identity, facts.customer]),
                    originals: Set(facts.originals.keys))
            } else {
                CustomerDependencies(unknown: Set([question.customer?.value].compactMap(\.self)))
            }
        self.init(mark: snapshot.mark, facts: facts, identity: identity, dependencies: dependencies)
    }
}
