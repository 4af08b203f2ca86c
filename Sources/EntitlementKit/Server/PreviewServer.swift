import AppStorePayloads
import EntitlementAPI
import EntitlementCore
public import Foundation

/// A server in memory, for previews and tests of your app: it answers by the same rules as the real one, and believes
/// whatever a ``PreviewDeviceStore`` states.
public actor PreviewServer: EntitlementServer {
    /// What requests come to.
    public enum Behavior: Sendable, Hashable {
        case answers
        /// Nobody reaches it.
        case isAway
        /// It asks to be left alone, for as many seconds where it says so.
        case isBusy(retryAfter: Int?)
        /// Whoever brings a token is told that it is not good any more.
        case refusesTokens
    }

    /// One that came, answered or not.
    public struct Request: Sendable, Hashable {
        /// About whom was asked.
        public let customerID: String
        /// The customer's own token; `nil`: only the app's key came along.
        public let token: String?
        /// How many transactions it told of.
        public let transactions: Int
    }

    /// Everything that came, in order.
    public private(set) var requests: [Request] = []

    var catalog: Catalog
    private let clock: any EntitlementClock
    private var behavior = Behavior.answers
    /// What it sells on the web, and what is being bought there.
    var web = PreviewWeb()
    var states: [String: OriginalState] = [:]
    private var ownership = OwnershipMap()
    private var grants = GrantBook()
    /// By bytes, as the ledger numbers ids.
    private var numbers: [[UInt8]: Int64] = [:]
    var position: Int64 = 1

    /// A server that knows nobody.
    ///
    /// - Parameters:
    ///   - catalog: what products give; the same as the app's unless the test is about a difference.
    ///   - clock: the same as the device's.
    public init(catalog: [EntitlementConfiguration.Mapping], clock: any EntitlementClock = SystemEntitlementClock()) {
        self.catalog = Catalog(catalog)
        self.clock = clock
    }

    var now: Timestamp { Timestamp(clock.now()) }

    // MARK: What a test does

    /// Says what requests come to from now on.
    public func set(_ behavior: Behavior) { self.behavior = behavior }

    /// Somebody is given an entitlement, as your support people do; devices hear of it when they next ask.
    ///
    /// - Parameters:
    ///   - entitlementID: what is given.
    ///   - customerID: to whom.
    ///   - until: until when; `nil`: without end.
    public func grant(_ entitlementID: String, to customerID: String, until: Date? = nil) {
        position += 1
        let fact = GrantFact(
            grantID: "grant_\(position)", customer: number(of: customerID), entitlementID: entitlementID,
            until: until.map { Timestamp($0) }, reason: "preview")
        grants.apply(.grant(fact), position: position, recordedAt: now)
    }

    /// Takes back whatever was given of an entitlement.
    public func takeBack(_ entitlementID: String, from customerID: String) {
        let customer = number(of: customerID)
        for grant in grants.grants.values where grant.entitlementID == entitlementID && grant.customer == customer {
            position += 1
            let fact = GrantRevocationFact(grantID: grant.grantID, customer: customer, reason: "preview")
            grants.apply(.grantRevocation(fact), position: position, recordedAt: now)
        }
    }

    // MARK: What the Kit asks for

    /// Does what ``set(_:)`` said; where it answers, everything it was told of the customer is folded.
    public func reconcile(customerID: String, token: String?, body: Data) throws -> EntitlementServerResponse {
        let request = try ReconcileRequest(parsing: Array(body))
        requests.append(
            Request(customerID: customerID, token: token, transactions: request.signedTransactions.count))
        if let refusal = try refusal(of: token) { return refusal }
        guard let customer = CustomerID(customerID) else { return EntitlementServerResponse(status: 404, body: Data()) }
        let answer = try answer(request, about: customer, token: token)
        return EntitlementServerResponse(status: 200, body: Data(try WireJSON.encode(answer)))
    }

    /// What ``set(_:)`` said comes to; `nil`: an answer.
    func refusal(of token: String?) throws -> EntitlementServerResponse? {
        switch behavior {
        case .answers: nil
        case .isAway: throw URLError(.notConnectedToInternet)
        case .isBusy(let seconds): try Self.busy(retryAfter: seconds)
        case .refusesTokens: token == nil ? nil : try Self.refusedToken
        }
    }

    private static var refusedToken: EntitlementServerResponse {
        get throws {
            let problem = ProblemDocument(
                code: "unauthenticated", title: "Unauthenticated", status: 401,
                detail: "The token is not good any more.", param: nil, isRetryable: false, requestID: "req_preview")
            return EntitlementServerResponse(status: 401, body: Data(try WireJSON.encode(problem)))
        }
    }

    private static func busy(retryAfter: Int?) throws -> EntitlementServerResponse {
        let problem = ProblemDocument(
            code: "unavailable", title: "Unavailable", status: 503, detail: "The server is busy.", param: nil,
            isRetryable: true, requestID: "req_preview")
        return EntitlementServerResponse(
            status: 503, retryAfter: retryAfter, body: Data(try WireJSON.encode(problem)))
    }

    func number(of customerID: String) -> IdentityRef {
        let id = Array((CustomerID(customerID)?.value ?? customerID).utf8)
        let number = numbers[id] ?? Int64(numbers.count + 1)
        numbers[id] = number
        return IdentityRef(number)
    }

    /// The numbers of people, for somebody to whom that of the customer counts.
    private func identities(for customer: CustomerID) -> [String: Int64] {
        let all = numbers.map { (String(decoding: $0.key, as: UTF8.self), $0.value) }
        return [customer.value: number(of: customer.value).number].merging(all) { own, _ in own }
    }

    private func answer(
        _ request: ReconcileRequest, about customer: CustomerID, token: String?
    ) throws -> ReconciliationDocument {
        let me = number(of: customer.value)
        let copy = try request.appTransaction.map { try DeviceAppTransaction(SignedStatement(jws: $0)) }
        let proof: ReconciliationDocument.Proof =
            token != nil ? .customerToken : copy?.customerID == customer ? .appTransaction : .none
        // A login brings along what was bought on the same Apple account before.
        if token != nil, let account = copy?.customerID, account != customer {
            let link = LinkFact(identity: number(of: account.value), customer: me, cause: .login)
            if ownership.alias(of: link.identity) == nil, !ownership.closesCircle(link) { apply(.link(link)) }
        }
        var results: [TransactionResult] = []
        for jws in request.signedTransactions {
            results.append(try take(SignedStatement(jws: jws), from: me, isProven: proof != .none))
        }
        let renewals = try request.signedRenewalInfos.map { jws in
            let renewal = try DeviceRenewal(SignedStatement(jws: jws))
            position += 1
            states[renewal.payload.originalTransactionID, default: OriginalState()]
                .join(renewal.fact, source: .device, position: position)
            return RenewalResult(originalTransactionID: renewal.payload.originalTransactionID, status: .recorded)
        }
        let facts = CustomerFacts(
            customer: ownership.customer(of: me), originals: states, grants: Array(grants.grants.values),
            ownership: ownership, catalog: catalog
        ).ofCustomerAlone()
        return ReconciliationDocument(
            customerID: customer.value, environment: .sandbox, position: position, at: now,
            entitlements: proof == .none ? [] : facts.answers(at: now).map { EntitlementDocument($0) },
            timeline: proof == .none
                ? [] : facts.timelines().map { TimelineDocument.Entitlement($0, policy: catalog.policy) },
            catalog: CatalogCopy(catalog, writtenAt: 1),
            finish: results.filter { $0.status == .recorded }.compactMap(\.transactionID), results: results,
            renewalResults: renewals, appTransaction: copy.map { _ in AppTransactionResult(status: .accepted) },
            proof: proof, drift: [], pass: nil,
            facts: proof == .none ? nil : FactsCopy(facts, identities: identities(for: customer)))
    }

    /// Learns of a transaction; it is the customer's of its account token, else whoever tells of it first.
    private func take(
        _ statement: SignedStatement, from customer: IdentityRef, isProven: Bool
    ) throws -> TransactionResult {
        let transaction = try DeviceTransaction(statement)
        var people = IdentityList()
        let fact = transaction.fact(&people).replacingIdentities { number(of: people.customerIDs[Int($0.number)]) }
        position += 1
        states[fact.originalTransactionID, default: OriginalState()].join(fact, source: .device, position: position)
        if ownership.owner(of: fact) == nil, isProven {
            apply(.claim(ClaimFact(originalTransactionID: fact.originalTransactionID, customer: customer)))
        }
        let isOwn = ownership.currentOwner(of: fact) == ownership.customer(of: customer)
        return TransactionResult(
            transactionID: transaction.payload.transactionID, status: isOwn || !isProven ? .recorded : .conflict)
    }

    private func apply(_ fact: LedgerFact) {
        position += 1
        ownership.apply(fact, position: position, recordedAt: now)
    }
}

extension EntitlementStore {
    /// A store for previews and tests that asks a server, both in memory.
    ///
    /// - Parameters:
    ///   - catalog: what products give, as the app knows it before it has asked.
    ///   - device: a store with the products.
    ///   - server: the server, which a test can keep to let it give, be away and refuse.
    ///   - tokenProvider: what the app gives when a token is needed, if the test is about logins.
    ///   - webCheckout: how pages are shown, if the test is about the web; see ``PreviewServer/sell(_:for:)``.
    ///   - clock: the same as the device's and the server's.
    public static func preview(
        catalog: [EntitlementConfiguration.Mapping], device: PreviewDeviceStore, server: PreviewServer,
        tokenProvider: EntitlementConfiguration.TokenProvider? = nil, webCheckout: WebCheckout? = nil,
        clock: any EntitlementClock = SystemEntitlementClock()
    ) -> EntitlementStore {
        var configuration = EntitlementConfiguration(
            bundleID: PreviewDeviceStore.bundleID, productIDs: catalog.map(\.productID), bundledCatalog: catalog)
        configuration.tokenProvider = tokenProvider
        configuration.webCheckout = webCheckout
        return EntitlementStore(
            configuration: configuration, store: device, server: server, storage: InMemoryEntitlementStorage(),
            clock: clock)
    }
}
