import EntitlementCore
import Ledger

/// Who sends a request, once that is known.
enum Credential: Sendable {
    case secretKey(APIKey)
    /// Ships in an app, and so is nobody's secret.
    case publishableKey(APIKey)
    case customerToken(CustomerTokenClaims)

    init(_ key: APIKey) { self = key.isPublishable ? .publishableKey(key) : .secretKey(key) }

    /// The API key; `nil` for a customer token.
    var key: APIKey? {
        switch self {
        case .secretKey(let key), .publishableKey(let key): key
        case .customerToken: nil
        }
    }

    /// The only environment it may speak of, and so the one meant when a request names none; `nil` for any.
    var onlyEnvironment: StoreEnvironment? {
        switch self {
        case .secretKey(let key), .publishableKey(let key): key.environment
        case .customerToken(let token): token.environment
        }
    }

    /// The part of the log that it may see: only its own environment and app, where it is bound to them.
    ///
    /// A publishable key sees only what the posted statements prove.
    var scope: LogScope {
        switch self {
        case .secretKey, .customerToken: LogScope(environment: onlyEnvironment, app: onlyBundleID.map { AppScope($0) })
        case .publishableKey: LogScope(environment: onlyEnvironment, app: nil)
        }
    }

    /// The only app it may speak for; `nil` for any.
    var onlyBundleID: String? {
        switch self {
        case .secretKey(let key), .publishableKey(let key): key.bundleID
        case .customerToken(let token): token.bundleID
        }
    }
}

extension Credential {
    /// Whether it may send what a route takes.
    ///
    /// - Parameters:
    ///   - reach: how far what it takes reaches; `nil`: as far as `access` does.
    ///   - customer: the customer the path names, where it names one.
    /// - Throws: `forbidden`.
    func check(for access: Route.Access, reach: Route.Reach? = nil, customer: CustomerID?) throws(Problem) {
        switch (access, self) {
        case (.open, _), (.device, .publishableKey), (.shop, .publishableKey): return
        case (.scope(let scope), _):
            try check(for: scope)
            try check(for: reach ?? access.reach)
        case (.device, .secretKey): try check(for: .customersWrite)
        case (.shop, .secretKey), (.shop, .customerToken): try check(for: .customersRead)
        case (.device, .customerToken(let token)):
            guard customer == token.customerID else {
                throw Problem(.forbidden, "The customer token was made for another customer.")
            }
        }
    }

    private func check(for scope: APIScope) throws(Problem) {
        switch self {
        case .secretKey(let key):
            guard key.allows(scope) else {
                throw Problem(.forbidden, "The API key lacks the scope \(scope.rawValue).")
            }
        case .publishableKey:
            throw Problem(
                .forbidden,
                "A publishable key may only reconcile, read products and begin a checkout; use a secret key of scope "
                    + "\(scope.rawValue).")
        case .customerToken:
            throw Problem(
                .forbidden,
                "A customer token may only reconcile and begin a checkout; use a secret key of scope \(scope.rawValue)."
            )
        }
    }

    /// A credential that is bound to an app or an environment may neither do nor see anything that reaches beyond it.
    private func check(for reach: Route.Reach) throws(Problem) {
        switch reach {
        case .bounds: return
        case .everyApp:
            guard scope.app == nil else {
                throw Problem(.forbidden, "The API key is bound to an app, and this holds for all apps.")
            }
        case .everything:
            guard scope.isWhole else {
                throw Problem(.forbidden, "The API key is bound to an environment or an app, and this holds for all.")
            }
        }
    }
}
