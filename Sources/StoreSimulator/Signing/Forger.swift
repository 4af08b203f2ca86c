import OpenSSLCrypto

/// A notification that must be refused, and how.
package struct Forgery: Sendable {
    /// What is wrong, in snake case.
    package let name: String
    /// The `signedPayload` to post.
    package let signedPayload: String
    /// The documented error code of the refusal.
    package let code: String
    /// Other codes that the contract leaves room for.
    package let alternatives: [String]
    /// Whether it is wrong only for an app that is configured for production alone.
    package let needsProductionOnly: Bool

    /// The HTTP status that belongs to the code.
    package var status: Int { Self.statuses[code] ?? 0 }

    private static let statuses = [
        "malformed_jws": 400, "untrusted_signature": 401, "unknown_app": 403, "wrong_environment": 403,
        "inconsistent_payload": 422,
    ]

    init(
        _ name: String, _ signedPayload: String, _ code: String, or alternatives: [String] = [],
        needsProductionOnly: Bool = false
    ) {
        self.name = name
        self.signedPayload = signedPayload
        self.code = code
        self.alternatives = alternatives
        self.needsProductionOnly = needsProductionOnly
    }
}

/// Makes bad variants of good notifications.
///
/// It starts from two notifications that the server would accept, so that each variant is wrong in one thing only.
package struct Forger: Sendable {
    let authority: SimulatedAuthority
    let world: StoreWorld
    /// A good notification in production with a transaction and renewal information.
    let good: StoreNotification
    /// A good one about another original transaction.
    let other: StoreNotification

    /// A forger with the signing keys of an authority that the server trusts.
    package init(authority: SimulatedAuthority, world: StoreWorld = .standard, seed: UInt64 = 1) {
        var storyteller = Storyteller(world: world, seed: seed)
        let start = world.start
        storyteller.subscribe(storyteller.account(), to: StoreWorld.ProductID.proMonthly, at: start)
        storyteller.subscribe(storyteller.account(), to: StoreWorld.ProductID.newsMonthly, at: start)
        self.authority = authority
        self.world = world
        good = storyteller.notifications[0]
        other = storyteller.notifications[1]
    }

    /// Every forgery; the names are distinct.
    package func all() throws -> [Forgery] {
        try brokenForms() + badAlgorithms() + badChains() + badSignatures() + swappedStatements()
            + missingFields() + wrongApps()
    }

    /// The notification that all forgeries vary, properly signed: the one to be accepted.
    package func genuine() throws -> String {
        try authority.sign(good)
    }

    /// Texts that are no JWS.
    func brokenForms() throws -> [Forgery] {
        let genuine = try genuine()
        let parts = genuine.split(separator: ".").map(String.init)
        return [
            Forgery("empty", "", "malformed_jws"),
            Forgery("not_a_jws", "hello", "malformed_jws"),
            Forgery("truncated", String(genuine.prefix(genuine.utf8.count / 3)), "malformed_jws"),
            Forgery("two_parts", parts[0] + "." + parts[1], "malformed_jws"),
            Forgery("four_parts", genuine + "." + parts[2], "malformed_jws"),
            Forgery("header_not_base64", "!!!." + parts[1] + "." + parts[2], "malformed_jws"),
            Forgery(
                "header_not_json", Base64.encodeURL(Array("hi".utf8)) + "." + parts[1] + "." + parts[2],
                "malformed_jws"),
            Forgery(
                "payload_not_json", try authority.sign(header: parts[0], payload: Base64.encodeURL(Array("hi".utf8))),
                "malformed_jws", or: ["inconsistent_payload"]),
        ]
    }

    /// Well-formed, but signed by nobody, or with something that everybody knows.
    func badAlgorithms() throws -> [Forgery] {
        let payload = try SimulatedAuthority.segment(nested(good))
        let chain = SimulatedAuthority.chain([
            authority.leaf, authority.intermediate.certificate, authority.root.certificate,
        ])
        func header(_ algorithm: String) throws -> String {
            try SimulatedAuthority.segment(.object(["alg": .string(algorithm), "x5c": chain]))
        }
        let none = try header("none") + "." + payload
        let symmetric = try header("HS256") + "." + payload
        let secret = try authority.leafKey.publicKey.derBytes()
        let code = Self.authenticationCode(of: Array(symmetric.utf8), secret: secret)
        let parts = try genuine().split(separator: ".").map(String.init)
        return [
            Forgery("algorithm_none", none + ".", "untrusted_signature", or: ["malformed_jws"]),
            Forgery(
                "algorithm_none_with_signature", none + "." + parts[2], "untrusted_signature",
                or: ["malformed_jws"]),
            Forgery(
                "algorithm_hs256", symmetric + "." + Base64.encodeURL(code), "untrusted_signature",
                or: ["malformed_jws"]),
            Forgery(
                "algorithm_es384", try authority.sign(header: header("ES384"), payload: payload),
                "untrusted_signature", or: ["malformed_jws"]),
        ]
    }

    /// The right chain around something it never signed.
    func badSignatures() throws -> [Forgery] {
        let parts = try genuine().split(separator: ".").map(String.init)
        let otherParts = try authority.sign(other).split(separator: ".").map(String.init)
        var signature = Base64.decodeURL(parts[2]) ?? []
        if !signature.isEmpty { signature[signature.count - 1] ^= 1 }
        return [
            Forgery(
                "signature_altered", parts[0] + "." + parts[1] + "." + Base64.encodeURL(signature),
                "untrusted_signature"),
            Forgery(
                "signature_of_another", parts[0] + "." + parts[1] + "." + otherParts[2], "untrusted_signature"),
            Forgery("payload_altered", parts[0] + "." + otherParts[1] + "." + parts[2], "untrusted_signature"),
            Forgery(
                "signature_all_zero",
                parts[0] + "." + parts[1] + "." + Base64.encodeURL([UInt8](repeating: 0, count: 64)),
                "untrusted_signature"),
        ]
    }

    /// The payload of a notification with its statements signed inside.
    func nested(_ notification: StoreNotification) throws -> PayloadValue {
        var payload = notification.payload
        guard case .object(var data) = payload["data"] else { return .object(payload) }
        if let transaction = notification.transaction {
            data["signedTransactionInfo"] = .string(try authority.sign(.object(transaction)))
        }
        if let renewal = notification.renewal {
            data["signedRenewalInfo"] = .string(try authority.sign(.object(renewal)))
        }
        payload["data"] = .object(data)
        return .object(payload)
    }

    /// HMAC-SHA-256 (RFC 2104), which the product itself has no use for.
    private static func authenticationCode(of message: [UInt8], secret: [UInt8]) -> [UInt8] {
        let short = secret.count > 64 ? SHA256.hash(secret) : secret
        let block = short + [UInt8](repeating: 0, count: 64 - short.count)
        return SHA256.hash(block.map { $0 ^ 0x5C } + SHA256.hash(block.map { $0 ^ 0x36 } + message))
    }
}
