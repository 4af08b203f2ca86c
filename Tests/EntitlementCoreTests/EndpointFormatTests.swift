import Testing

@testable import EntitlementCore

@Suite("Formats of endpoints")
struct EndpointFormatTests {
    @Test("every type but the test is of one format, and what RevenueCat's receivers know is counted")
    func types() {
        let chosen = EndpointFormat.allCases.flatMap(\.types)
        #expect(chosen.count == Set(chosen).count && Set(chosen).union([.test]) == Set(MessageType.allCases))
        #expect(EndpointFormat.revenueCat.types.filter { !$0.isCounted }.isEmpty)
        #expect(EndpointFormat.standard.types.filter(\.isCounted) == [.entitlementsChanged])
    }

    @Test("an endpoint reads back as it was written, with an Authorization and without")
    func codec() throws {
        for hash in [nil, Digest([UInt8](repeating: 7, count: 32))] {
            let terms = EndpointTerms(
                urlHash: .zero, secretHash: .zero, origin: "https://example.com", types: ["RENEWAL"],
                environment: .sandbox, bundleID: "com.example", format: "revenuecat", description: "billing",
                authorizationHash: hash)
            let fact = LedgerFact.access(.endpoint(EndpointFact(endpointID: "we_1", change: .made(terms))))
            #expect(try FactCodec.decode(FactCodec.encode(fact)) == fact)
            #expect(terms.knownFormat == .revenueCat)
        }
    }
}
