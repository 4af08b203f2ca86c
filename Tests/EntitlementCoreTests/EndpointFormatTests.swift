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

    @Test("what changes of an endpoint reads back as it was written, and is applied by itself")
    func changes() throws {
        let hash = try #require(Digest([UInt8](repeating: 7, count: 32)))
        let terms = EndpointTerms(
            urlHash: .zero, secretHash: .zero, origin: "https://example.com", types: ["RENEWAL"], environment: .sandbox,
            bundleID: "com.example", format: "revenuecat", description: "billing", authorizationHash: hash)
        let all = EndpointChanges(
            address: EndpointChanges.Address(urlHash: hash, origin: "https://example.org"), types: [],
            environment: .some(nil), description: .some("b"), authorizationHash: .some(nil))
        for changes in [
            EndpointChanges(), all, EndpointChanges(environment: .some(.production), description: .some(nil)),
        ] {
            let fact = LedgerFact.access(.endpoint(EndpointFact(endpointID: "we_1", change: .changed(changes))))
            #expect(try FactCodec.decode(FactCodec.encode(fact)) == fact)
        }
        var book = EndpointBook()
        let begin = Timestamp(milliseconds: Int64(1_800_000_000_000))
        book.apply(EndpointFact(endpointID: "we_1", change: .made(terms)), position: 1, at: begin)
        book.apply(
            EndpointFact(endpointID: "we_1", change: .changed(EndpointChanges(types: ["EXPIRATION"]))), position: 2,
            at: begin)
        var expected = terms
        expected.types = ["EXPIRATION"]
        #expect(book.endpoints["we_1"]?.terms == expected && book.endpoints["we_1"]?.lastPosition == 2)
        book.apply(EndpointFact(endpointID: "we_1", change: .changed(all)), position: 3, at: begin)
        let changed = try #require(book.endpoints["we_1"]?.terms)
        #expect(changed.urlHash == hash && changed.origin == "https://example.org" && changed.types.isEmpty)
        #expect(changed.environment == nil && changed.description == "b" && changed.authorizationHash == nil)
        #expect(changed.format == "revenuecat" && changed.bundleID == "com.example" && changed.secretHash == .zero)
    }

    @Test("secrets sign as long as the rotations after them say")
    func secrets() throws {
        var book = EndpointBook()
        let begin = Timestamp(milliseconds: Int64(1_800_000_000_000))
        let hashes = (0..<4).compactMap { Digest([UInt8](repeating: $0, count: 32)) }
        let terms = EndpointTerms(
            urlHash: .zero, secretHash: hashes[0], origin: "https://example.com", types: [], environment: nil,
            bundleID: nil, format: "standard", description: nil)
        book.apply(EndpointFact(endpointID: "we_1", change: .made(terms)), position: 1, at: begin)
        func rotate(_ number: Int, keepOldSeconds: Int64?) throws {
            let change = EndpointFact.Change.secretRotated(secretHash: hashes[number], keepOldSeconds: keepOldSeconds)
            let fact = LedgerFact.access(.endpoint(EndpointFact(endpointID: "we_1", change: change)))
            #expect(try FactCodec.decode(FactCodec.encode(fact)) == fact)
            book.apply(EndpointFact(endpointID: "we_1", change: change), position: Int64(number) + 1, at: begin)
        }
        func signing(after seconds: Int64) -> [Digest] {
            book.endpoints["we_1"]?.signing(at: begin.adding(milliseconds: seconds * 1000), overlap: 86_400_000) ?? []
        }
        try rotate(1, keepOldSeconds: nil)
        #expect(signing(after: 86_399) == [hashes[1], hashes[0]] && signing(after: 86_400) == [hashes[1]])
        try rotate(2, keepOldSeconds: 60)
        #expect(signing(after: 59) == [hashes[2], hashes[1], hashes[0]] && signing(after: 60) == [hashes[2]])
        book.note(hashes[2], of: "we_1", madeAt: begin.adding(milliseconds: -50_000))
        #expect(signing(after: 9) == [hashes[2], hashes[1], hashes[0]] && signing(after: 10) == [hashes[2]])
        book.note(hashes[2], of: "we_1", madeAt: begin.adding(milliseconds: 50_000))
        #expect(signing(after: 60) == [hashes[2]], "no later than its event")
        try rotate(3, keepOldSeconds: 0)
        #expect(signing(after: 0) == [hashes[3]])
    }
}
