import Dispatch
import EntitlementCore
import HTTPServer
import Ledger

/// Who is let in, and how often.
///
/// A secret key has a limit of its own. Whatever else asks is held to that of its client address: publishable keys,
/// which have one of their own besides, customer tokens, and whoever fails to authenticate. Open routes have none, because
/// what the store sends must not be lost; but signatures that do not verify are charged to the address (`verifying`).
struct Admission: Sendable {
    let rateLimiter: RateLimiter
    let authenticator: Authenticator
    /// The peers whose word about the client's address is taken.
    let trustedProxies: [NetworkRange]
    let metrics: Metrics
    /// Where signatures are verified.
    let verificationQueue = DispatchQueue(label: "verify", attributes: .concurrent)

    /// The credential of a request for a route that needs one; `nil` for an open route.
    ///
    /// - Throws: `unauthenticated`, `rate_limited`, `forbidden`, or what the database throws.
    func admit(_ request: HTTPRequest, for route: Route, customer: CustomerID?) async throws -> Credential? {
        guard route.access != .open else { return nil }
        let credential = try await authenticate(request, worksInOutage: route.access == .scope(.metrics))
        do throws(Problem) {
            if let key = credential.key {
                let subject: RateLimiter.Subject =
                    key.isPublishable ? .publishableKey(id: key.id) : .secretKey(id: key.id)
                try take(subject, for: request)
            }
            try credential.check(for: route.access, reach: route.reach, customer: customer)
        } catch {
            throw error.of(credential)
        }
        return credential
    }

    /// Looks up the credential; the client's address is charged for it, unless it is a secret key.
    ///
    /// The address is charged before the look-up, and gets the token back if the credential is a secret key; for a key
    /// that was recognised before it is not charged at all. So strangers can neither keep the database busy nor lock
    /// such a key out.
    func authenticate(_ request: HTTPRequest, worksInOutage: Bool) async throws -> Credential {
        let address = ClientAddress(of: request.head, trusting: trustedProxies)
        var payer = RateLimiter.Subject.address(address)
        var hasPaid = false
        func pay() throws {
            guard !hasPaid else { return }
            try take(payer, for: request)
            hasPaid = true
        }
        do {
            let presented = try authenticator.presented(by: request)
            if presented.looksLikeSecretKey { payer = .secretKeyGuesses(address) }
            if !authenticator.wasSecretKey(presented) { try pay() }
            let credential = try await authenticator.credential(presented, worksInOutage: worksInOutage)
            if case .secretKey = credential, hasPaid { rateLimiter.putBack(payer) }
            return credential
        } catch let problem as Problem {
            if problem.code == .unauthenticated { try pay() }
            throw problem
        } catch {
            // Not the client's fault.
            if hasPaid { rateLimiter.putBack(payer) }
            throw error
        }
    }

    /// Looks up something as good as a secret key; the client's address is charged where it turns out to be invalid.
    ///
    /// - Throws: `rate_limited`, or what `look` throws.
    func atGuessersExpense<Found>(
        _ request: HTTPRequest, _ look: () async throws -> Found?
    ) async throws -> Found? {
        let payer = RateLimiter.Subject.secretKeyGuesses(ClientAddress(of: request.head, trusting: trustedProxies))
        try take(payer, for: request)
        do {
            let found = try await look()
            if found != nil { rateLimiter.putBack(payer) }
            return found
        } catch {
            // Not the client's fault.
            rateLimiter.putBack(payer)
            throw error
        }
    }

    /// Lets the client's address pay for signatures to be verified, where the request is not sent with a secret key: so
    /// many of them cost as much as another request.
    ///
    /// - Throws: `rate_limited`.
    func payForSignatures(_ count: Int, _ call: Call) throws(Problem) {
        if case .secretKey = call.credential { return }
        let requests = Int64(count / Self.signaturesPerRequest)
        guard requests > 0 else { return }
        try take(.address(ClientAddress(of: call.request.head, trusting: trustedProxies)), requests, for: call.request)
    }

    private static let signaturesPerRequest = 25

    /// Lets the customer pay for a page of Stripe's, where it is not asked for with a secret key.
    ///
    /// - Throws: `rate_limited`.
    func payForPage(of customer: CustomerID, in environment: StoreEnvironment, _ call: Call) throws(Problem) {
        if case .secretKey = call.credential { return }
        let subject = RateLimiter.Subject.pages(customer, environment)
        guard let wait = rateLimiter.take(subject, RateLimiter.secondsOfPage, at: call.request.receivedAt) else {
            return
        }
        throw rateLimited(subject, "requests for pages of Stripe's", wait)
    }

    /// - Throws: `rate_limited` where whoever pays for the request has nothing left.
    func checkRate(
        of presented: Authenticator.Presented, _ address: ClientAddress, at now: ContinuousClock.Instant
    ) throws(Problem) {
        for payer in authenticator.payers(of: presented, address, at: now) {
            let standing = rateLimiter.standing(of: payer, at: now)
            if standing.tokens <= 0 { throw rateLimited(payer, "requests", standing.wait) }
        }
    }

    /// Looks the credential up, at the address's expense where it turns out to be none.
    func recognise(_ request: HTTPRequest, for route: Route, customer: CustomerID?) async throws {
        let credential = try await authenticate(request, worksInOutage: false)
        if case .secretKey = credential {
            // Was paid back already.
        } else {
            rateLimiter.putBack(.address(ClientAddress(of: request.head, trusting: trustedProxies)))
        }
        do throws(Problem) {
            try credential.check(for: route.access, customer: customer)
        } catch {
            throw error.of(credential)
        }
    }

    /// Whether a peer, by its numeric address, is a proxy that speaks for many clients.
    func trusts(_ address: String) -> Bool { trustedProxies.contains { $0.contains(address) } }

    private func take(
        _ subject: RateLimiter.Subject, _ count: Int64 = 1, for request: HTTPRequest
    ) throws(Problem) {
        guard let wait = rateLimiter.take(subject, count, at: request.receivedAt) else { return }
        throw rateLimited(subject, "requests", wait)
    }

    /// Counts a request that is refused as too much, and says so.
    func rateLimited(_ subject: RateLimiter.Subject, _ what: String, _ wait: Duration) -> Problem {
        metrics.count(.rateLimited, [subject.kind])
        let seconds = max(1, Int64((wait / .seconds(1)).rounded(.up)))
        return Problem(
            .rateLimited, "This \(subject.name) sends too many \(what); wait \(seconds) s.",
            headers: [("Retry-After", String(seconds))])
    }
}

extension Problem {
    /// The same, as it is logged of a request whose sender is known.
    fileprivate func of(_ credential: Credential) -> Problem {
        var problem = self
        problem.keyID = credential.key?.id
        return problem
    }
}

extension RateLimiter.Subject {
    /// As metrics call it.
    var kind: String {
        switch self {
        case .address, .secretKeyGuesses, .forgeries: "address"
        case .secretKey, .publishableKey: "key"
        case .repetitions: "repetitions"
        case .pages: "pages"
        }
    }

    /// As people call it.
    fileprivate var name: String {
        switch self {
        case .address, .secretKeyGuesses, .forgeries: "client address"
        case .secretKey, .publishableKey: "API key"
        case .repetitions: "subscription"
        case .pages: "customer"
        }
    }
}
