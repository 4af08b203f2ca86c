import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("FactCodec: the canonical bytes of facts", .timeLimit(.minutes(5)))
struct FactCodecTests {
    @Test("every fact is read back as it was written, and written as it was read", arguments: 0..<10 as Range<UInt64>)
    func roundTrip(block: UInt64) throws {
        for seed in block * 100..<(block + 1) * 100 {
            var random = SplitMix64(seed: seed)
            let fact = random.fact()
            let bytes = FactCodec.encode(fact)
            let read = try FactCodec.decode(bytes)
            #expect(read == fact, "seed \(seed)")
            #expect(FactCodec.encode(read) == bytes, "seed \(seed)")
        }
    }

    @Test("every truncation and every trailing byte is an error, never a trap", arguments: 0..<25 as Range<UInt64>)
    func truncated(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let bytes = FactCodec.encode(random.fact())
        for length in 0..<bytes.count {
            #expect(throws: FactCodec.DecodingFailure.truncated, "\(length) of \(bytes.count)") {
                try FactCodec.decode(Array(bytes[..<length]))
            }
        }
        for extra in [[0], [1], [255], bytes] as [[UInt8]] {
            #expect(throws: FactCodec.DecodingFailure.trailingBytes) { try FactCodec.decode(bytes + extra) }
        }
    }

    @Test("any bytes are an error, or the one encoding of what they read as", arguments: 0..<25 as Range<UInt64>)
    func mutated(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let bytes = FactCodec.encode(random.fact())
        for _ in 0..<400 {
            var other = bytes
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let index = Int.random(in: other.indices, using: &random)
                other[index] =
                    random.once(in: 2)
                    ? random.pick([0, 1, 2, 127, 128, 255]) : other[index] ^ (1 << random.pick([0, 1, 5, 7]))
            }
            guard let read = try? FactCodec.decode(other) else { continue }
            #expect(FactCodec.encode(read) == other, "\(other)")
        }
    }

    @Test("an unknown version or kind is an error that names it", arguments: [0, 2, 255] as [UInt8])
    func unknownVersion(version: UInt8) {
        var bytes = FactCodec.encode(link(alice, to: bob))
        bytes[0] = version
        #expect(throws: FactCodec.DecodingFailure.unknownVersion(version)) { try FactCodec.decode(bytes) }
        #expect(throws: FactCodec.DecodingFailure.unknownVersion(version)) { try FactCodec.decode([version]) }
        #expect(throws: FactCodec.DecodingFailure.invalid("a fact of kind \(version == 2 ? 99 : version)")) {
            try FactCodec.decode([1, version == 2 ? 99 : version])
        }
    }

    @Test("lengths and counts beyond the bytes there are end at once, without reserving memory for them")
    func hugeLengths() {
        let huge: [UInt8] = [255, 255, 255, 255]
        // A catalog of 4294967295 products, a claim with a text of 4 GiB.
        for bytes in [[1, 2] + huge, [1, 4] + huge, [1, 2, 0, 0, 0, 1] + huge] {
            #expect(throws: FactCodec.DecodingFailure.truncated) { try FactCodec.decode(bytes) }
        }
        #expect(throws: FactCodec.DecodingFailure.truncated) { try OriginalState(encoded: huge) }
        #expect(throws: FactCodec.DecodingFailure.truncated) {
            try CanonicalReader.read(huge + [0, 0, 0, 0, 0, 0, 0, 0]) { texts in
                _ = try texts.list { reader throws(FactCodec.DecodingFailure) in try reader.text() }
            }
        }
    }

    @Test(
        "other spellings of a value are refused: flags, text that is not UTF-8, instants out of range, unsorted catalogs"
    )
    func otherSpellings() {
        #expect(throws: FactCodec.DecodingFailure.invalid("a flag of 2")) {
            try CanonicalReader.read([2]) { try $0.flag() }
        }
        for utf8 in [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xe6, 0x97]] as [[UInt8]] {
            #expect(throws: FactCodec.DecodingFailure.invalid("a text that is not UTF-8")) {
                try CanonicalReader.read([0, 0, 0, UInt8(utf8.count)] + utf8) { try $0.text() }
            }
        }
        for milliseconds in [Int64.min, .max, 253_402_300_800_000] {
            var writer = CanonicalWriter()
            writer.integer(milliseconds)
            #expect(throws: FactCodec.DecodingFailure.invalid("a timestamp of \(milliseconds) ms")) {
                try CanonicalReader.read(writer.bytes) { try $0.timestamp() }
            }
        }
        for names in [["b", "a"], ["a", "a"]] {
            var writer = CanonicalWriter()
            writer.byte(1)
            writer.byte(2)
            writer.count(2)
            for name in names {
                writer.text(name)
                writer.count(0)
                writer.flag(false)
            }
            writer.flag(true)
            writer.flag(false)
            writer.integer(0)
            writer.text("ends_access")
            #expect(throws: FactCodec.DecodingFailure.invalid("a catalog out of order")) {
                try FactCodec.decode(writer.bytes)
            }
        }
    }

    @Test("an instant that is none is written as the latest there is, so that what is written can be read")
    func endless() throws {
        var writer = CanonicalWriter()
        writer.timestamp(.endless)
        #expect(try CanonicalReader.read(writer.bytes) { try $0.timestamp() } == .latest)
    }

    @Test("a renewal's word about a higher price follows its last byte, which is what it always was without one")
    func priceIncrease() throws {
        func bytes(_ status: Int64?, isGraceWithoutEnd: Bool) -> [UInt8] {
            var writer = CanonicalWriter()
            var texts = StatementTexts(areWrittenOnce: false)
            writer.renewal(
                RenewalFact(
                    payloadHash: .zero, signedDate: nil, originalTransactionID: "1", priceIncreaseStatus: status,
                    isGraceWithoutEnd: isGraceWithoutEnd), &texts)
            return Array(writer.bytes.dropFirst(32 + 1 + 5))
        }
        let before: [UInt8] = [0, 0, 0, 0, 0]
        #expect(bytes(nil, isGraceWithoutEnd: false) == before + [0])
        #expect(bytes(nil, isGraceWithoutEnd: true) == before + [1])
        #expect(bytes(0, isGraceWithoutEnd: false) == before + [2, 0, 0, 0, 0, 0, 0, 0, 0])
        #expect(bytes(1, isGraceWithoutEnd: true) == before + [3, 0, 0, 0, 0, 0, 0, 0, 1])
        #expect(throws: FactCodec.DecodingFailure.invalid("a renewal's marks of 4")) {
            try CanonicalReader.read([UInt8](repeating: 0, count: 33) + [0, 0, 0, 1, 0x31] + before + [4]) {
                var texts = StatementTexts(areWrittenOnce: false)
                return try $0.renewal(&texts)
            }
        }
    }

    @Test("the bytes are those they have always been")
    func golden() {
        #expect(
            FactCodec.encode(claim(by: bob, of: "é")) == [1, 4, 0, 0, 0, 2, 0xc3, 0xa9, 0, 0, 0, 0, 0, 0, 0, 2])
        #expect(
            FactCodec.encode(
                .grant(GrantFact(grantID: "g", customer: alice, entitlementID: "p", until: nil, reason: "")))
                == [1, 6, 0, 0, 0, 1, 0x67, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x70, 0, 0, 0, 0, 0, 0])
        #expect(
            FactCodec.encode(.forgetting(ForgettingFact(identities: [bob], evidencePositions: [258])))
                == [1, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2])
        let key = KeyCreationFact(
            keyID: "k", secretHash: .zero, name: "n", isPublishable: true, scopes: ["s"], environment: .sandbox,
            bundleID: nil)
        #expect(
            FactCodec.encode(.access(.keyCreated(key)))
                == [1, 13, 0, 0, 0, 1, 0x6b] + [UInt8](repeating: 0, count: 32) + [
                    0, 0, 0, 1, 0x6e, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0x73, 1, 0, 0, 0, 7,
                ] + Array("sandbox".utf8) + [0])
    }

    @Test(
        "views are as strict: every truncation and every trailing byte is an error", arguments: 0..<10 as Range<UInt64>)
    func views(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let bytes = OriginalState(random.deliveries(of: "1000")).encoded()
        for length in 0..<bytes.count {
            #expect(throws: FactCodec.DecodingFailure.self) { try OriginalState(encoded: Array(bytes[..<length])) }
        }
        #expect(throws: FactCodec.DecodingFailure.trailingBytes) { try OriginalState(encoded: bytes + [0]) }
    }

    @Test("a state names a text that its statements have in common once, and is read as well where it stands in full")
    func repeatedTexts() throws {
        let life: [TransactionFact] = (0..<12).compactMap { month in
            let start = Double(30 * month)
            let statement = subscription("10\(month)", from: start, to: start + 30, month == 0 ? .purchase : .renewal)
            guard case .transaction(let fact, _) = statement else { return nil }
            return fact
        }
        var state = OriginalState()
        var full = CanonicalWriter()
        full.count(life.count)
        var texts = StatementTexts(areWrittenOnce: false)
        for fact in life {
            state.join(fact, source: .notification, position: 7)
            full.byte(StatementSources(.notification).rawValue)
            full.integer(7)
            full.transaction(fact, &texts)
        }
        full.count(0)
        full.integer(7)
        let bytes = state.encoded()
        let product = Array(try #require(life.first).bundleID.utf8)
        #expect(bytes.indices.count { bytes[$0...].starts(with: product) } == 1)
        #expect(bytes.count < full.bytes.count * 3 / 4)
        #expect(try OriginalState(encoded: bytes) == state)
        #expect(try OriginalState(encoded: full.bytes) == state)
    }

    @Test("a text that is said to be repeated and has none before it is an error, and so is any in a fact")
    func repetitionOfNothing() throws {
        guard case .transaction(let fact, _) = subscription("100", from: 0, to: 30) else {
            Issue.record("no transaction")
            return
        }
        var texts = StatementTexts(areWrittenOnce: true)
        var writer = CanonicalWriter()
        writer.transaction(fact, &texts)
        let first = writer.bytes
        writer = CanonicalWriter()
        writer.transaction(fact, &texts)
        let second = writer.bytes
        #expect(second.count < first.count)
        func read(_ bytes: [UInt8], once: Bool) throws -> TransactionFact {
            try CanonicalReader.read(bytes) { reader throws(FactCodec.DecodingFailure) in
                var texts = StatementTexts(areWrittenOnce: once)
                return try reader.transaction(&texts)
            }
        }
        #expect(try read(first, once: true) == fact)
        #expect(try read(first, once: false) == fact)
        #expect(throws: FactCodec.DecodingFailure.truncated) { try read(second, once: true) }
        #expect(throws: FactCodec.DecodingFailure.truncated) { try read(second, once: false) }
    }

    @Test("identities are replaced wherever a fact names them, and nothing else changes")
    func identities() {
        for seed in 0..<200 as Range<UInt64> {
            var random = SplitMix64(seed: seed)
            let fact = random.fact()
            func turned(_ reference: IdentityRef) -> IdentityRef { IdentityRef(~reference.number) }
            #expect(fact.replacingIdentities { $0 } == fact, "seed \(seed)")
            #expect(fact.replacingIdentities(turned).replacingIdentities(turned) == fact, "seed \(seed)")
            var seen: [IdentityRef] = []
            _ = fact.replacingIdentities {
                seen.append($0)
                return $0
            }
            if !seen.isEmpty { #expect(fact.replacingIdentities(turned) != fact, "seed \(seed)") }
        }
    }
}

@Suite("Digests and catalogs")
struct DigestTests {
    @Test("a digest is 32 bytes, ordered as its hexadecimal text")
    func digests() {
        #expect(Digest([UInt8](repeating: 1, count: 31)) == nil)
        #expect(Digest([UInt8](repeating: 1, count: 33)) == nil)
        #expect(Digest.zero.hex == String(repeating: "0", count: 64))
        var random = SplitMix64(seed: 4)
        for _ in 0..<100 {
            let (one, other) = (random.anyDigest(), random.anyDigest())
            #expect((one < other) == (one.hex < other.hex))
        }
    }

    @Test("of two products with one id the later is kept, and products are in the order of their ids")
    func catalog() {
        let catalog = Catalog(products: [
            CatalogProduct(productID: "b", entitlements: ["x"]), CatalogProduct(productID: "a", entitlements: []),
            CatalogProduct(productID: "b", entitlements: ["y"]),
        ])
        #expect(catalog.products.map(\.productID) == ["a", "b"])
        #expect(catalog.product("b")?.entitlements == ["y"])
        #expect(catalog.product("c") == nil)
    }
}
