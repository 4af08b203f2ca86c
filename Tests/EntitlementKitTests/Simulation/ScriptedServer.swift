import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation
import Synchronization

@testable import EntitlementKit

/// A server that folds what it is posted, as the real one does, or fails as a test says.
final class ScriptedServer: EntitlementServer {
    enum Mood: Sendable {
        case answers
        case unreachable
        /// Somebody on the way to it answers, or it says no more than that.
        case status(Int, retryAfter: Int? = nil)
        /// The server itself says so.
        case problem(Int, retryAfter: Int? = nil)
    }

    struct Received: Sendable {
        let customerID: String
        let token: String?
        let request: ReconcileRequest
    }

    struct Script: Sendable {
        var mood = Mood.answers
        /// What the next requests come to, one each as they arrive; those after them by the mood.
        var next: [Mood] = []
        var catalog = Catalog(products: [
            CatalogProduct(productID: "monthly", entitlements: ["premium"]),
            CatalogProduct(productID: "lifetime", entitlements: ["forever"]),
        ])
        /// Transactions that are refused by themselves.
        var refused: Set<String> = []
        /// A request that holds one of these fails as a whole.
        var poison: Set<String> = []
        var listsToFinish = true
        var door: Door?
        /// Requests that hold one of these wait at the door; empty: all do.
        var doorFor: Set<String> = []
        /// Requests about a customer wait at theirs.
        var doorsByCustomer: [String: Door] = [:]
        /// Answers that are made already wait there.
        var exit: Door?
        var proof = ReconciliationDocument.Proof.appTransaction
        /// Whether a request proves nothing that holds neither a token nor an app transaction.
        var provesByAppTransaction = false
        /// Whether an app transaction proves anything where that is asked for.
        var appTransactionProves = true
        var refusedTokens: Set<String> = []
        var refusesAllTokens = false
        var tellsFacts = true
        /// What a server of another version says instead of an answer of this one.
        var translate: (@Sendable (WireValue) -> WireValue)?
        var states: [String: OriginalState] = [:]
        var ownership = OwnershipMap()
        var grants: [GrantState] = []
        /// Of each customer, whose id is theirs byte for byte.
        var numbers: [CustomerID: Int64] = [:]
        var position: Int64 = 1
        var received: [Received] = []
        var shop = WebShop()
    }

    private let script = Mutex(Script())
    private let clock: ManualClock
    /// How far its own clock is ahead of the device's at the start.
    private let startWall: Date

    init(_ clock: ManualClock, _ edit: (inout Script) -> Void = { _ in }) {
        self.clock = clock
        startWall = clock.now()
        script.withLock { edit(&$0) }
    }

    var state: Script { script.withLock { $0 } }

    func edit(_ body: (inout Script) -> Void) { script.withLock { body(&$0) } }

    func change<Answer: Sendable>(_ body: (inout Script) -> Answer) -> Answer { script.withLock { body(&$0) } }

    var received: [Received] { state.received }

    /// The ids of what was posted, request by request; those without are left out.
    var posts: [[String]] { received.map { Self.ids($0.request) }.filter { !$0.isEmpty } }

    /// By uptime, so that nobody sets it.
    var now: Timestamp { Timestamp(startWall).adding(milliseconds: clock.uptime().milliseconds) }

    private static func ids(_ request: ReconcileRequest) -> [String] {
        request.signedTransactions.compactMap {
            try? DeviceTransaction(SignedStatement(jws: $0)).payload.transactionID
        }
    }

    func reconcile(customerID: String, token: String?, body: Data) async throws -> EntitlementServerResponse {
        let request = try ReconcileRequest(parsing: Array(body))
        let next = change { script in
            script.received.append(Received(customerID: customerID, token: token, request: request))
            return script.next.isEmpty ? nil : script.next.removeFirst()
        }
        let ids = Set(Self.ids(request))
        let (door, doorFor) = script.withLock { ($0.door, $0.doorFor) }
        if let door, doorFor.isEmpty || !doorFor.isDisjoint(with: ids) { await door.pass() }
        await state.doorsByCustomer[customerID]?.pass()
        switch next ?? state.mood {
        case .answers: break
        case .unreachable: throw URLError(.notConnectedToInternet)
        case .status(let status, let retryAfter):
            return EntitlementServerResponse(status: status, retryAfter: retryAfter, body: Data())
        case .problem(let status, let retryAfter): return try Self.problem(status, retryAfter: retryAfter)
        }
        if let token, state.refusesAllTokens || state.refusedTokens.contains(token) {
            return try Self.problem(401)
        }
        guard state.poison.isDisjoint(with: ids) else { return EntitlementServerResponse(status: 422, body: Data()) }
        let document = try script.withLock { script in
            var asked = script
            let proves = request.appTransaction != nil && script.appTransactionProves
            if script.provesByAppTransaction, token == nil, !proves { asked.proof = .none }
            let document = try Self.answer(request, customerID, &asked, at: now)
            asked.proof = script.proof
            script = asked
            return document
        }
        var wire = try WireJSON.decode(WireValue.self, from: WireJSON.encode(document))
        if let translate = state.translate { wire = translate(wire) }
        await state.exit?.pass()
        return EntitlementServerResponse(status: 200, body: Data(try WireJSON.encode(wire)))
    }

    static func problem(_ status: Int, retryAfter: Int? = nil) throws -> EntitlementServerResponse {
        let problem = ProblemDocument(
            code: "problem", title: "A problem", status: status, detail: "So it is.", param: nil, isRetryable: false,
            requestID: "req_1")
        return EntitlementServerResponse(
            status: status, retryAfter: retryAfter, body: Data(try WireJSON.encode(problem)))
    }

    private static func answer(
        _ request: ReconcileRequest, _ customerID: String, _ script: inout Script, at now: Timestamp
    ) throws -> ReconciliationDocument {
        let me = script.number(of: customerID)
        let identities = script.numbers.map { ($0.key.value, $0.value) }
        var results: [TransactionResult] = []
        var shown: Set<String> = []
        var finish: [String] = []
        for jws in request.signedTransactions {
            let transaction = try DeviceTransaction(SignedStatement(jws: jws))
            let id = transaction.payload.transactionID
            guard !script.refused.contains(id) else {
                results.append(TransactionResult(transactionID: id, status: .refused, code: "untrusted_signature"))
                continue
            }
            let fact = script.hold(transaction, source: .device)
            shown.insert(fact.originalTransactionID)
            if script.ownership.owner(of: fact) == nil, script.proof != .none {
                script.ownership.apply(
                    .claim(ClaimFact(originalTransactionID: fact.originalTransactionID, customer: me)),
                    position: script.position, recordedAt: now)
            }
            let owner = script.ownership.currentOwner(of: fact)
            let isOwn = owner == script.ownership.customer(of: me)
            results.append(TransactionResult(transactionID: id, status: isOwn ? .recorded : .conflict))
            if isOwn, script.listsToFinish { finish.append(id) }
        }
        let renewals = try request.signedRenewalInfos.map { jws in
            let renewal = try DeviceRenewal(SignedStatement(jws: jws))
            script.states[renewal.payload.originalTransactionID, default: OriginalState()]
                .join(renewal.fact, source: .device, position: script.position)
            return RenewalResult(originalTransactionID: renewal.payload.originalTransactionID, status: .recorded)
        }
        // Without a proof, of what was just shown alone.
        let isProven = script.proof != .none
        let facts = CustomerFacts(
            customer: script.ownership.customer(of: me),
            originals: isProven ? script.states : script.states.filter { shown.contains($0.key) },
            grants: isProven ? script.grants : [], ownership: script.ownership, catalog: script.catalog)
        return ReconciliationDocument(
            customerID: customerID, environment: .production, position: script.position, at: now,
            entitlements: facts.answers(at: now).map { EntitlementDocument($0) },
            timeline: facts.timelines().map { TimelineDocument.Entitlement($0, policy: script.catalog.policy) },
            catalog: CatalogCopy(script.catalog, writtenAt: 1), finish: finish, results: results,
            renewalResults: renewals, appTransaction: nil, proof: script.proof, drift: [], pass: nil,
            facts: script.tellsFacts && isProven
                ? FactsCopy(
                    facts.ofCustomerAlone(), identities: [customerID: me.number].merging(identities) { own, _ in own })
                : nil)
    }
}

extension ScriptedServer.Script {
    /// The number of a person.
    mutating func number(of customerID: String) -> IdentityRef {
        let id = CustomerID(stringLiteral: customerID)
        let number = numbers[id] ?? Int64(numbers.count + 1)
        numbers[id] = number
        return IdentityRef(number)
    }

    /// The ledger learns of a transaction, from whomever.
    @discardableResult
    mutating func hold(_ transaction: DeviceTransaction, source: StatementSource) -> TransactionFact {
        var ids = IdentityList()
        let fact = transaction.fact(&ids).replacingIdentities { number(of: ids.customerIDs[Int($0.number)]) }
        position += 1
        states[fact.originalTransactionID, default: OriginalState()].join(fact, source: source, position: position)
        return fact
    }
}

extension GrantState {
    /// Something given for ever, to the customer of a number.
    static func forever(_ entitlement: String, of customer: Int64) -> GrantState {
        GrantState(
            fact: GrantFact(
                grantID: "g", customer: IdentityRef(customer), entitlementID: entitlement, until: nil, reason: ""),
            position: 1, recordedAt: Timestamp(milliseconds: Statements.start))
    }
}
