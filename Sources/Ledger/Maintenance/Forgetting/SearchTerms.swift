import EntitlementCore
import OpenSSLCrypto

/// What a person's account tokens and app transaction ids look like in the store's signed bytes, in whatever case they are
/// written.
///
/// Evidence that is stored as it is, is looked through by the database, by regular expressions; what is compressed is
/// decompressed and looked through here. Both find the same.
struct SearchTerms: Sendable {
    private struct Term {
        /// Printable ASCII in lower case, without any character that means something in a regular expression.
        let text: [UInt8]
        /// Whether it is found only where no further digit stands beside it: a longer number is another one.
        let isNumber: Bool
    }

    private let terms: [Term]
    /// The terms that begin with a byte.
    private let beginning: [[Int]]

    var isEmpty: Bool { terms.isEmpty }

    init(identities: some Sequence<String>) { self.init(identities.flatMap(Self.terms(of:))) }

    /// The terms of an id that no event names: only where a payload states it as whose it is.
    ///
    /// Any number may be asked for, such as a price or a transaction's id, and stands in the evidence of others.
    init(statedIdentity value: String) {
        guard let id = Self.identity(value) else {
            self.init([])
            return
        }
        let texts = [id.text.lowercased(), id.text.uppercased()].map { "\"\(id.member)\":\"\($0)\"" }
        self.init(
            [Term(text: texts[0].utf8.map(Self.lowercased), isNumber: false)]
                + Set(texts).sorted().flatMap(Self.encodings(of:)))
    }

    private init(_ terms: [Term]) {
        var beginning = [[Int]](repeating: [], count: 256)
        for (index, term) in terms.enumerated() { beginning[Int(term.text[0])].append(index) }
        (self.terms, self.beginning) = (terms, beginning)
    }

    /// A regular expression for each term, to be matched without regard to case with evidence as PostgreSQL spells bytes.
    var patterns: [String] {
        terms.map { term in
            let text = String(decoding: term.text, as: UTF8.self)
            return term.isNumber ? "(?<![0-9])\(text)(?![0-9])" : text
        }
    }

    /// Whether any of the terms stands in the bytes.
    func areFound(in bytes: [UInt8]) -> Bool {
        bytes.map(Self.lowercased).withUnsafeBufferPointer { bytes in
            for place in bytes.indices {
                for index in beginning[Int(bytes[place])] where isTerm(terms[index], at: place, of: bytes) {
                    return true
                }
            }
            return false
        }
    }

    private func isTerm(_ term: Term, at place: Int, of bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        let end = place + term.text.count
        guard end <= bytes.count, term.text.elementsEqual(bytes[place..<end]) else { return false }
        guard term.isNumber else { return true }
        return (place == 0 || !Self.isDigit(bytes[place - 1])) && (end == bytes.count || !Self.isDigit(bytes[end]))
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private static func lowercased(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }

    /// How an id stands in evidence: in a decoded payload, or in one that was kept as it was received.
    ///
    /// An app's own id might be any word, and has no terms.
    private static func terms(of value: String) -> [Term] {
        guard let id = identity(value) else { return [] }
        return [Term(text: id.text.lowercased().utf8.map { $0 }, isNumber: id.isNumber)]
            + Set([id.text.lowercased(), id.text.uppercased()]).sorted().flatMap { encodings(of: "\"\($0)\"") }
    }

    /// How the store writes an id, and the member of its payloads that has it; `nil` for an app's own id.
    private static func identity(_ value: String) -> (text: String, member: String, isNumber: Bool)? {
        guard let id = CustomerID(value)?.appTransactionID else {
            return CustomerID.isUUID(value) ? (value, "appAccountToken", false) : nil
        }
        // Of another word it would say nothing.
        guard !id.isEmpty, id.utf8.allSatisfy(isDigit) else { return nil }
        return (id, "appTransactionId", true)
    }

    private static func encodings(of text: String) -> [Term] {
        (0..<3).map { Term(text: base64(of: Array(text.utf8), behind: $0).map(lowercased), isNumber: false) }
    }

    /// The characters that bytes certainly have in base64url, where so many bytes of a group of three stand before them.
    private static func base64(of bytes: [UInt8], behind count: Int) -> [UInt8] {
        let encoded = Array(Base64.encodeURL([UInt8](repeating: 0, count: count) + bytes).utf8)
        // The first character or two hold bits of what stands before, the last one of what comes after.
        let first = (count * 8 + 5) / 6
        let whole = (count + bytes.count) * 8 / 6
        return Array(encoded[first..<whole])
    }
}
