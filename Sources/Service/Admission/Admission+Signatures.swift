import AppStoreServer
import Dispatch
import HTTPServer

/// Charges clients for signatures that do not verify.
///
/// What the store has signed costs its sender nothing. Everything else costs the client's address as many checks of
/// signatures as the attempt took. When the address has spent its share, certificates that are not known yet are not
/// checked any more, and what fails then is answered `rate_limited`. A notification of the store's still comes through,
/// because its certificates are known from earlier ones and checking its one or two signatures is never refused. That
/// holds even when a forger has the same address, as behind a proxy that is not configured as trusted.
extension Admission {
    /// Runs work that verifies signatures, on a thread of Dispatch.
    ///
    /// There are as many as cores, because the work keeps one busy. Each looks at what the address has left when it begins,
    /// and charges it when it ends; so what is under way at once can exceed a share by no more than one piece of work a core.
    ///
    /// - Parameter isTrusted: whether the sender pays nothing, because it holds a secret key.
    /// - Throws: what `body` throws, or `rate_limited` in its place when the address has spent its share.
    func verifying<Value: Sendable>(
        for request: HTTPRequest, isTrusted: Bool = false,
        _ body: @escaping @Sendable (inout SignatureWork) throws -> Value
    ) async throws -> Value {
        let payer = RateLimiter.Subject.forgeries(ClientAddress(of: request.head, trusting: trustedProxies))
        let result: Result<Value, any Error> = await withCheckedContinuation { continuation in
            verificationQueue.async {
                continuation.resume(
                    returning: Result {
                        if isTrusted {
                            var work = SignatureWork()
                            return try body(&work)
                        }
                        return try verify(at: request.receivedAt, payer, body)
                    })
            }
        }
        return try result.get()
    }

    private func verify<Value>(
        at now: ContinuousClock.Instant, _ payer: RateLimiter.Subject, _ body: (inout SignatureWork) throws -> Value
    ) throws -> Value {
        let allowance = rateLimiter.standing(of: payer, at: now).tokens
        var work = SignatureWork(allowance: allowance)
        do {
            let value = try body(&work)
            rateLimiter.charge(payer, work.wasted, at: now)
            if work.isCutShort { throw refusal(payer, at: now) }
            return value
        } catch let refused as NotificationRefusal where refused.isOfSignature {
            rateLimiter.charge(payer, allowance > 0 ? max(1, work.wasted) : work.wasted, at: now)
            if allowance <= 0 || work.isCutShort { throw refusal(payer, at: now) }
            throw refused
        }
    }

    private func refusal(_ payer: RateLimiter.Subject, at now: ContinuousClock.Instant) -> Problem {
        rateLimited(payer, "signatures that do not verify", rateLimiter.standing(of: payer, at: now).wait)
    }
}

extension NotificationRefusal {
    /// Whether nothing shows that the store has signed it.
    fileprivate var isOfSignature: Bool { code == .untrustedSignature || code == .malformedJWS }
}
