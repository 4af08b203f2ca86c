import EntitlementCore
import OpenSSLCrypto
import StripePayloads

extension FuzzTarget {
    /// What Stripe sends and answers, to facts and a fold: events of every shape, pages of lists, and kept readings.
    static func stripe() -> FuzzTarget {
        FuzzTarget("stripe", .json) { bytes throws(FuzzFinding) in
            var isTaken = false
            if let event = try? StripeEvent(parsing: bytes, sha256: hash) {
                isTaken = true
                try checkWeb(event.fact)
                for followUp in event.followUps {
                    try require(followUp.lookup.path.hasPrefix("/v1/"), "a look-up leads elsewhere")
                }
            }
            if let reading = try? StripeReading(evidence: bytes) {
                isTaken = true
                _ = reading.next
                if let (fact, identities) = try? reading.fact(sha256: hash) {
                    try checkWeb(fact)
                    let again = try? StripeReading(evidence: reading.evidence).fact(sha256: hash)
                    try require(again?.0 == fact && again?.1 == identities, "a reading's evidence reads back otherwise")
                }
            }
            if let list = try? StripeList(parsing: bytes) {
                isTaken = true
                for element in list.elements { _ = try? StripeEvent(parsing: element, sha256: hash) }
            }
            if let header = String(validating: bytes.prefix(StripeSignature.lengthLimit), as: UTF8.self),
                let signature = try? StripeSignature(header: header)
            {
                let verified = try? signature.verify(body: bytes, secrets: ["whsec_of_nobody"], now: now)
                try require(verified == nil, "a signature was believed that nobody made")
            }
            return isTaken
        }
    }

    private static func hash(_ bytes: [UInt8]) -> Digest { Digest(SHA256.hash(bytes)) ?? .zero }

    /// A fact of the web has one spelling, is joined once, and is folded.
    private static func checkWeb(_ fact: WebFact) throws(FuzzFinding) {
        try require(
            (try? FactCodec.decode(FactCodec.encode(.web(fact)))) == .web(fact), "a fact reads back as another one")
        guard let original = fact.originalTransactionID else { return }
        var state = OriginalState()
        state.join(.web(fact), originalTransactionID: original, source: .notification, position: 1)
        let once = state.encoded()
        let learns = state.join(.web(fact), originalTransactionID: original, source: .notification, position: 1)
        try require(!learns && state.encoded() == once, "the same twice is more than once")
        let products = (fact.product?.price).map {
            [
                CatalogProduct(
                    productID: "pro", entitlements: ["premium"], stripe: StripeProduct(price: $0, mode: .subscription))
            ]
        }
        fold(
            CustomerFacts(
                customer: fact.owners.first?.customer ?? IdentityRef(0), originals: [original: state],
                catalog: Catalog(products: products ?? [])))
    }
}
