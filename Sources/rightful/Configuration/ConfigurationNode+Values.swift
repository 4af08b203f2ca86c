import EntitlementCore
import Foundation
import Service

extension ConfiguredApp {
    init(reading node: ConfigurationNode) throws(ConfigurationError) {
        let members = try node.members(
            ["bundle_id", "app_apple_id", "environments", "app_store_api", "consumption_information"]
                + DeviceTrust.members)
        bundleID = try members.required("bundle_id", of: node).string()
        appAppleID = try members["app_apple_id"]?.positiveInteger()
        environments = try Self.environments(members["environments"])
        if environments.contains(.production), appAppleID == nil {
            throw ConfigurationError(
                "\(node.path).app_apple_id", .file(node.file),
                "is missing, and the production environment needs it: it is the Apple ID on the app's page in App "
                    + "Store Connect. Name \"environments\": [\"sandbox\"] to do without")
        }
        appStoreAPI = try members["app_store_api"].map { node throws(ConfigurationError) in
            try AppStoreAPIAccess(reading: node)
        }
        consumption = try members["consumption_information"].map { node throws(ConfigurationError) in
            try ConsumptionPolicy(reading: node)
        }
        if consumption != nil, appStoreAPI == nil {
            throw ConfigurationError(
                "\(node.path).consumption_information", .file(node.file),
                "needs app_store_api beside it, by which the App Store is told")
        }
        trust = try DeviceTrust(reading: members)
    }

    private static func environments(_ node: ConfigurationNode?) throws(ConfigurationError) -> Set<StoreEnvironment> {
        guard let node else { return Set(StoreEnvironment.allCases) }
        var environments: Set<StoreEnvironment> = []
        for element in try node.elements(limit: 2) {
            guard let environment = StoreEnvironment(rawValue: try element.string()) else {
                throw element.error("must be production or sandbox")
            }
            environments.insert(environment)
        }
        guard !environments.isEmpty else { throw node.error("must name production, sandbox or both") }
        return environments
    }
}

extension DeviceTrust {
    fileprivate static let members = ["link_on_login", "app_transaction_proof", "app_transaction_max_age_days"]
    /// Ten years.
    private static let maxAgeLimit: Int64 = 3650

    fileprivate init(reading app: [String: ConfigurationNode]) throws(ConfigurationError) {
        self.init()
        linksOnLogin = try app["link_on_login"]?.boolean() ?? linksOnLogin
        if let node = app["app_transaction_proof"] {
            guard let proof = AppTransactionProof(rawValue: try node.string()) else {
                throw node.error(
                    "must be one of \(AppTransactionProof.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            appTransactionProof = proof
        }
        if let node = app["app_transaction_max_age_days"] {
            let days = try node.positiveInteger()
            guard days <= Self.maxAgeLimit else {
                throw node.error("must be a whole number from 1 to \(Self.maxAgeLimit)")
            }
            appTransactionMaxAge = days * Timestamp.millisecondsPerDay
        }
    }
}

extension AppStoreAPIAccess {
    init(reading node: ConfigurationNode) throws(ConfigurationError) {
        let members = try node.members(["issuer_id", "key_id", "private_key_path", "base_url", "sandbox_base_url"])
        issuerID = try members.required("issuer_id", of: node).string()
        keyID = try members.required("key_id", of: node).string()
        privateKeyPath = try members.required("private_key_path", of: node).filePath()
        baseURL = try members["base_url"]?.webAddress()
        sandboxBaseURL = try members["sandbox_base_url"]?.webAddress()
    }
}

extension ConsumptionPolicy {
    fileprivate init(reading node: ConfigurationNode) throws(ConfigurationError) {
        let members = try node.members([
            "customer_consented", "sample_content_provided", "refund_preference", "consumables_delivered",
        ])
        let consent = try members.required("customer_consented", of: node)
        guard try consent.boolean() else {
            throw consent.error(
                "must be true: without your customers' consent leave consumption_information out, and nothing is told")
        }
        self.init(
            sampleContentProvided: try members.required("sample_content_provided", of: node).boolean(),
            refundPreference: try members["refund_preference"].map { node throws(ConfigurationError) in
                let words = ConsumptionInformation.RefundPreference.allCases
                guard let preference = words.first(where: { $0.rawValue == (try? node.string()) }) else {
                    throw node.error("must be one of \(words.map(\.rawValue).joined(separator: ", "))")
                }
                return preference
            }, deliversConsumables: try members["consumables_delivered"]?.boolean() ?? false)
    }
}

extension PassKey {
    init(reading node: ConfigurationNode) throws(ConfigurationError) {
        let members = try node.members(["key_id", "private_key_path", "not_before"])
        keyID = try members.required("key_id", of: node).string()
        privateKeyPath = try members.required("private_key_path", of: node).filePath()
        notBefore = try members["not_before"]?.timestamp()
    }
}

extension RootCertificateSource {
    init(reading node: ConfigurationNode) throws(ConfigurationError) {
        self = try node.string() == "apple" ? .apple : .file(node.filePath())
    }
}

extension NetworkRange {
    init(reading node: ConfigurationNode) throws(ConfigurationError) {
        let text = try node.string()
        guard let range = NetworkRange(text) else {
            throw node.error("'\(text)' is neither an IP address nor a range such as 10.0.0.0/8")
        }
        self = range
    }
}

extension ConfigurationNode {
    func webAddress() throws(ConfigurationError) -> String {
        let text = try string()
        guard let url = URLComponents(string: text), let host = url.host, ["https", "http"].contains(url.scheme),
            url.query == nil, url.fragment == nil, url.user == nil, ["", "/"].contains(url.path)
        else { throw error("must be an https:// address without path and query, such as https://store.example") }
        guard url.scheme == "https" || ["127.0.0.1", "[::1]", "::1", "localhost"].contains(host) else {
            throw error("must be an https:// address: plain http goes to this machine alone")
        }
        return text.hasSuffix("/") ? String(text.dropLast()) : text
    }

    fileprivate func timestamp() throws(ConfigurationError) -> Timestamp {
        guard let timestamp = Timestamp(rfc3339: try string()) else {
            throw error("must be an RFC 3339 time, such as 2026-01-01T00:00:00Z")
        }
        return timestamp
    }
}
