import EntitlementAPI
import EntitlementCore
import Ledger

/// Reads customers off the event loop, and encodes their answers there too.
struct EntitlementsLoader: Sendable {
    /// A customer's answer, ready to be sent.
    struct Loaded: Sendable {
        let answer: EncodedEntitlements
        /// The end of the log at which the customer was read.
        let mark: EventMark
        let dependencies: CustomerDependencies
    }

    let reader: LedgerReader
    let sha256: @Sendable ([UInt8]) -> Digest
    let now: @Sendable () -> Timestamp

    /// The answers to some questions, in their order; `nil` where the general path is to tell what went wrong.
    func load(_ questions: [LedgerQuestion]) async -> [Loaded?] {
        var answers: [Loaded?] = []
        for (question, customer) in zip(questions, await reader.load(questions)) {
            guard case .success(let customer) = customer else {
                answers.append(nil)
                continue
            }
            answers.append(try? await answer(question, customer))
        }
        return answers
    }

    private func answer(_ question: LedgerQuestion, _ customer: LoadedCustomer) async throws -> Loaded? {
        guard let id = question.customer else { return nil }
        let at = now()
        let (answers, until) = customer.facts.answersHolding(at: at)
        var dependencies = customer.dependencies
        var alsoIn: [StoreEnvironment] = []
        if answers.isEmpty, let identity = customer.identity {
            // Such an answer also says where else the customer is known.
            dependencies.inEveryEnvironment = [identity]
            alsoIn = try await reader.otherEnvironments(
                of: id, than: question.environment, upTo: customer.mark.position)
        }
        let document = EntitlementsDocument(
            customerID: id.value, environment: question.environment, at: at, knownAt: customer.mark.position,
            entitlements: answers.map { EntitlementDocument($0) }, alsoIn: alsoIn)
        return Loaded(
            answer: try EncodedEntitlements(document, until: until, sha256: sha256), mark: customer.mark,
            dependencies: dependencies)
    }
}
