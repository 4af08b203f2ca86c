import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

/// A read of entitlements at an instant that the request names, or as they were known at a position.
struct PastRead: Sendable {
    let customer: CustomerID
    let environment: StoreEnvironment
    /// `nil`: now.
    let at: Timestamp?
    /// `nil`: all that is known now.
    let knownAt: Int64?

    /// What is kept of the customer is kept under this.
    let key: CustomerCacheKey

    /// Reads a target by the same rules as the general path.
    ///
    /// `nil` for what that path has to look at: another route, what it refuses, and parameters that this does not know.
    init?(_ target: UnsafeBufferPointer<UInt8>, key: APIKey) {
        guard target.count <= Self.targetLimit, target.contains(UInt8(ascii: "?")),
            let request = try? HTTPRequest(
                head: HTTPRequestHead(method: "GET", target: String(decoding: target, as: UTF8.self))),
            request.pathSegments.count == 4, request.pathSegments[0] == "v1", request.pathSegments[1] == "customers",
            request.pathSegments[3] == "entitlements",
            request.query.allSatisfy({ Self.parameters.contains($0.name) })
        else { return nil }
        let call = Call(
            request: request, parameters: ["id": request.pathSegments[2]], credential: Credential(key),
            operation: .readEntitlements)
        do {
            try call.refuseRepeatedParameters()
            customer = try call.customerID()
            environment = try call.environment()
            self.key = CustomerCacheKey(customer: Array(customer.value.utf8), environment: environment)
            at = try call.instant(.at)
            switch try call.knownAt() {
            case .head: knownAt = nil
            case .position(let position): knownAt = position
            case .recorded: return nil
            }
        } catch {
            return nil
        }
    }

    private static let parameters: Set<String> = ["at", "known_at", "environment"]
    private static let targetLimit = 2048
}

/// The answer to a read of the past, ready to be sent.
struct PastAnswer: Sendable {
    let answer: EncodedEntitlements
    /// The instant it is about, as text.
    let at: String
    /// The position it rests on.
    let position: Int64
}

/// Folds answers about the past, off the event loop.
struct PastFolder: Sendable {
    let reader: LedgerReader
    let sha256: @Sendable ([UInt8]) -> Digest
    let now: @Sendable () -> Timestamp

    /// The answers to some reads, in their order; `nil` where the general path is to tell what went wrong, or to answer.
    ///
    /// - Parameters:
    ///   - known: the pasts at hand, of which the log says nothing newer up to `position`.
    ///   - position: the head of the log when it was asked last.
    /// - Returns: the answers, and the pasts that had to be loaded for them.
    func answers(
        to reads: [PastRead], known: [CustomerCacheKey: CustomerPast], provenAt position: Int64
    ) async -> (answers: [PastAnswer?], loaded: [CustomerCacheKey: CustomerPast]) {
        var missing: [CustomerCacheKey: PastRead] = [:]
        for read in reads where known[read.key] == nil { missing[read.key] = read }
        var loaded: [CustomerCacheKey: CustomerPast] = [:]
        if !missing.isEmpty {
            let asked = Array(missing)
            let found = try? await reader.pasts(of: asked.map { ($0.value.customer, $0.value.environment) })
            for ((key, _), past) in zip(asked, found ?? []) { loaded[key] = past }
        }
        var answers: [PastAnswer?] = []
        for read in reads {
            guard let past = known[read.key] ?? loaded[read.key] else {
                answers.append(nil)
                continue
            }
            answers.append(try? await answer(to: read, past, upTo: max(position, past.mark.position)))
        }
        return (answers, loaded)
    }

    private func answer(to read: PastRead, _ past: CustomerPast, upTo head: Int64) async throws -> PastAnswer? {
        let position = read.knownAt ?? head
        // What is beyond the head has a refusal of its own.
        guard position <= head else { return nil }
        let catalog = try await reader.catalog(past.catalog(knownAt: position))
        let at = read.at ?? now()
        let answers = try past.facts(knownAt: position, catalog).answers(at: at)
        let document = EntitlementsDocument(
            customerID: read.customer.value, environment: read.environment, at: at, knownAt: position,
            entitlements: answers.map { EntitlementDocument($0) },
            alsoIn: answers.isEmpty ? past.otherEnvironments(knownAt: position) : [])
        return PastAnswer(
            answer: try EncodedEntitlements(document, until: at, sha256: sha256), at: at.description, position: position
        )
    }
}
