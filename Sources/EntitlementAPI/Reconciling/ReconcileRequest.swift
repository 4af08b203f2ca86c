package import EntitlementCore

/// What a device holds, and holds to be its own: the body of `POST /v1/customers/{id}/reconcile`.
package struct ReconcileRequest: CommandBody {
    /// The most transactions posted at once.
    package static let transactionLimit = 500
    /// The most pieces of renewal information posted at once.
    package static let renewalLimit = 100
    /// The most claims made at once.
    package static let claimLimit = 100
    /// The longest bundle id, in bytes.
    package static let bundleIDLimit = 255

    /// How one product reads on the device.
    package struct Claim: Codable, Hashable, Sendable {
        package let productID: String
        package let state: EntitlementState
        /// `nil` where it is without end, or the device does not know.
        package let until: Timestamp?

        package init(productID: String, state: EntitlementState, until: Timestamp? = nil) {
            self.productID = productID
            self.state = state
            self.until = until
        }

        package init(from decoder: any Decoder) throws {
            let members = try decoder.container(keyedBy: CodingKeys.self)
            productID = try members.required(
                .productID, members.text(.productID, limit: CatalogDocument.productIDLimit))
            state = try members.required(.state, members.word(.state, EntitlementState.self))
            until = try members.timestamp(.until)
        }

        fileprivate enum CodingKeys: String, CodingKey {
            case state, until
            case productID = "product_id"
        }
    }

    /// A claim as it is posted: by a device that may be newer than the service.
    private struct PostedClaim: StandsFor {
        typealias Meant = Claim

        /// `nil` where its state is a word that is not known here: it cannot be compared with anything.
        let claim: Claim?

        init(from decoder: any Decoder) throws {
            let members = try decoder.container(keyedBy: Claim.CodingKeys.self)
            if let word = try? members.decode(String.self, forKey: .state), EntitlementState(rawValue: word) == nil {
                claim = nil
            } else {
                claim = try Claim(from: decoder)
            }
        }
    }

    /// Which environment is meant.
    package enum Environment: String, Codable, Hashable, Sendable, CaseIterable {
        case production
        case sandbox
        /// That of what was posted: of the app transaction, else of the first transaction that can be believed.
        case auto

        package init(_ environment: StoreEnvironment) {
            switch environment {
            case .production: self = .production
            case .sandbox: self = .sandbox
            }
        }

        /// `nil` for `auto`.
        package var named: StoreEnvironment? {
            switch self {
            case .production: .production
            case .sandbox: .sandbox
            case .auto: nil
            }
        }
    }

    /// The bundle id of the app that runs; a key that is bound to an app names it already.
    package let app: String?
    /// `nil`: the credential's own, else production.
    package let environment: Environment?
    /// Compact JWS, each of a transaction; they are verified one by one.
    package let signedTransactions: [String]
    /// Compact JWS, each of renewal information.
    package let signedRenewalInfos: [String]
    /// Compact JWS of the app transaction.
    package let appTransaction: String?
    package let claims: [Claim]
    /// Whether the answer is to hold the facts themselves, for a device that folds them.
    package let wantsFacts: Bool

    package init(
        app: String? = nil, environment: Environment? = nil, signedTransactions: [String] = [],
        signedRenewalInfos: [String] = [], appTransaction: String? = nil, claims: [Claim] = [],
        wantsFacts: Bool = false
    ) {
        self.app = app
        self.environment = environment
        self.signedTransactions = signedTransactions
        self.signedRenewalInfos = signedRenewalInfos
        self.appTransaction = appTransaction
        self.claims = claims
        self.wantsFacts = wantsFacts
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        app = try members.text(.app, limit: Self.bundleIDLimit)
        environment = try members.word(.environment, Environment.self)
        signedTransactions = try members.list(
            .signedTransactions, of: String.self, "a text", limit: Self.transactionLimit)
        signedRenewalInfos = try members.list(.signedRenewalInfos, of: String.self, "a text", limit: Self.renewalLimit)
        appTransaction = try members.value(.appTransaction, String.self, "a text")
        claims = try members.list(.claims, of: PostedClaim.self, "an object", limit: Self.claimLimit)
            .compactMap(\.claim)
        wantsFacts = try members.value(.wantsFacts, Bool.self, "true or false") ?? false
    }

    private enum CodingKeys: String, CodingKey {
        case app, environment, claims
        case signedTransactions = "signed_transactions"
        case signedRenewalInfos = "signed_renewal_infos"
        case appTransaction = "app_transaction"
        case wantsFacts = "facts"
    }
}
