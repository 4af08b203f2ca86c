/// The canonical bytes of a fact: the one form that is hashed, stored and read back.
///
/// Every value has exactly one encoding: integers are eight bytes, big-endian; text and bytes are preceded by their
/// length in four bytes; an optional is preceded by 0 or 1. The first byte is the format's version, the second the
/// kind of fact. Later versions append fields and keep reading the earlier ones.
package enum FactCodec {
    static let version: UInt8 = 1

    package enum DecodingFailure: Error, Equatable {
        case truncated
        case trailingBytes
        case unknownVersion(UInt8)
        case invalid(String)
    }

    package static func encode(_ fact: LedgerFact) -> [UInt8] {
        var writer = CanonicalWriter()
        writer.byte(version)
        switch fact {
        case .notification(let fact):
            // One that carries no app transaction has the form that earlier versions wrote.
            writer.byte(fact.appTransaction == nil ? 1 : 27)
            if let app = fact.appTransaction { writer.integer(app.number) }
            writer.notification(fact)
        case .catalog(let catalog):
            // One that says nothing of the web has the form that earlier versions wrote.
            writer.byte(catalog.speaksOfWeb ? 22 : 2)
            if catalog.speaksOfWeb { writer.webCatalog(catalog) } else { writer.catalog(catalog) }
        case .link(let fact):
            writer.byte(3)
            writer.integer(fact.identity.number)
            writer.integer(fact.customer.number)
            writer.byte(fact.cause.rawValue)
            writer.optional(fact.actor) { $0.text($1) }
            writer.optional(fact.reason) { $0.text($1) }
        case .claim(let fact):
            writer.byte(4)
            writer.text(fact.originalTransactionID)
            writer.integer(fact.customer.number)
        case .transfer(let fact):
            writer.byte(5)
            writer.text(fact.originalTransactionID)
            writer.integer(fact.customer.number)
            writer.flag(fact.hadNoOwner)
            writer.optional(fact.actor) { $0.text($1) }
            writer.optional(fact.reason) { $0.text($1) }
        case .grant(let fact):
            writer.byte(6)
            writer.text(fact.grantID)
            writer.integer(fact.customer.number)
            writer.text(fact.entitlementID)
            writer.optional(fact.until) { $0.timestamp($1) }
            writer.text(fact.reason)
            writer.optional(fact.actor) { $0.text($1) }
        case .grantRevocation(let fact):
            writer.byte(7)
            writer.text(fact.grantID)
            writer.integer(fact.customer.number)
            writer.text(fact.reason)
            writer.optional(fact.actor) { $0.text($1) }
        case .forgetting(let fact):
            // One that is about no purchase has the form that earlier versions wrote.
            writer.byte(fact.originalTransactionID == nil ? 8 : 25)
            if let original = fact.originalTransactionID { writer.text(original) }
            writer.forgetting(fact)
        case .statements(let fact):
            writer.byte(9)
            writer.statements(fact)
        case .transferUndo(let fact):
            writer.byte(10)
            writer.text(fact.originalTransactionID)
            writer.integer(fact.undoes)
            writer.optional(fact.actor) { $0.text($1) }
            writer.optional(fact.reason) { $0.text($1) }
        case .conflict(let fact):
            writer.byte(11)
            writer.text(fact.originalTransactionID)
            writer.integer(fact.claimant.number)
        case .drift(let fact):
            writer.byte(12)
            writer.drift(fact)
        case .access(.keyCreated(let fact)):
            writer.byte(13)
            writer.keyCreation(fact)
        case .access(.keyRevoked(let fact)):
            writer.byte(14)
            writer.text(fact.keyID)
            writer.digest(fact.secretHash)
        case .access(.passKeys(let keys)):
            writer.byte(15)
            writer.passKeys(keys)
        case .access(.endpoint(let fact)):
            writer.byte(26)
            writer.endpoint(fact)
        case .storeRequest(let fact):
            writer.byte(21)
            writer.storeRequest(fact)
        case .web(let fact):
            writer.byte(23)
            writer.web(fact)
        }
        return writer.bytes
    }

    package static func decode(_ bytes: [UInt8]) throws(DecodingFailure) -> LedgerFact {
        try CanonicalReader.read(bytes, decode)
    }

    /// Decodes bytes where they lie, without a copy.
    package static func decode(_ bytes: UnsafeRawBufferPointer) throws(DecodingFailure) -> LedgerFact {
        var reader = CanonicalReader(bytes)
        return try decode(&reader)
    }

    private static func decode(_ reader: inout CanonicalReader) throws(DecodingFailure) -> LedgerFact {
        let version = try reader.byte()
        guard version == Self.version else { throw .unknownVersion(version) }
        let fact: LedgerFact
        switch try reader.byte() {
        case 1: fact = .notification(try reader.notification())
        case 2: fact = .catalog(try reader.catalog())
        case 3:
            fact = .link(
                LinkFact(
                    identity: IdentityRef(try reader.integer()), customer: IdentityRef(try reader.integer()),
                    cause: try reader.linkCause(), actor: try reader.optionalText(), reason: try reader.optionalText()))
        case 4:
            fact = .claim(
                ClaimFact(originalTransactionID: try reader.text(), customer: IdentityRef(try reader.integer())))
        case 5:
            fact = .transfer(
                TransferFact(
                    originalTransactionID: try reader.text(), customer: IdentityRef(try reader.integer()),
                    hadNoOwner: try reader.flag(), actor: try reader.optionalText(),
                    reason: try reader.optionalText()))
        case 6:
            fact = .grant(
                GrantFact(
                    grantID: try reader.text(), customer: IdentityRef(try reader.integer()),
                    entitlementID: try reader.text(),
                    until: try reader.optionalTimestamp(), reason: try reader.text(),
                    actor: try reader.optionalText()))
        case 7:
            fact = .grantRevocation(
                GrantRevocationFact(
                    grantID: try reader.text(), customer: IdentityRef(try reader.integer()), reason: try reader.text(),
                    actor: try reader.optionalText()))
        case 8: fact = .forgetting(try reader.forgetting())
        case 9: fact = .statements(try reader.statements())
        case 10:
            fact = .transferUndo(
                TransferUndoFact(
                    originalTransactionID: try reader.text(), undoes: try reader.integer(),
                    actor: try reader.optionalText(), reason: try reader.optionalText()))
        case 11:
            fact = .conflict(
                ConflictFact(
                    originalTransactionID: try reader.text(), claimant: IdentityRef(try reader.integer())))
        case 12: fact = .drift(try reader.drift())
        case 13: fact = .access(.keyCreated(try reader.keyCreation()))
        case 14:
            fact = .access(
                .keyRevoked(KeyRevocationFact(keyID: try reader.text(), secretHash: try reader.digest())))
        case 15: fact = .access(.passKeys(try reader.passKeys()))
        case 21: fact = .storeRequest(try reader.storeRequest())
        case 22: fact = .catalog(try reader.webCatalog())
        case 23: fact = .web(try reader.web())
        case 25:
            let original = try reader.text()
            var forgetting = try reader.forgetting()
            forgetting.originalTransactionID = original
            fact = .forgetting(forgetting)
        case 26: fact = .access(.endpoint(try reader.endpoint()))
        case 27:
            let app = IdentityRef(try reader.integer())
            var notification = try reader.notification()
            notification.appTransaction = app
            fact = .notification(notification)
        case let kind: throw .invalid("a fact of kind \(kind)")
        }
        try reader.finish()
        return fact
    }
}

extension CanonicalReader {
    /// Why a link was made.
    fileprivate mutating func linkCause() throws(Failure) -> LinkCause {
        let byte = try byte()
        guard let cause = LinkCause(rawValue: byte) else { throw .invalid("a link's cause of \(byte)") }
        return cause
    }
}

/// Appends values in the canonical form.
package struct CanonicalWriter: Sendable {
    package private(set) var bytes: [UInt8] = []

    /// - Parameter capacity: about how many bytes will be written.
    package init(capacity: Int = 512) { bytes.reserveCapacity(capacity) }

    package mutating func byte(_ value: UInt8) { bytes.append(value) }

    package mutating func flag(_ value: Bool) { bytes.append(value ? 1 : 0) }

    package mutating func integer(_ value: Int64) {
        withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
    }

    package mutating func count(_ value: Int) { count(UInt32(value)) }

    mutating func count(_ value: UInt32) {
        withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
    }

    package mutating func text(_ value: String) {
        var value = value
        value.withUTF8 { utf8 in
            count(utf8.count)
            bytes.append(contentsOf: utf8)
        }
    }

    package mutating func data(_ value: [UInt8]) {
        count(value.count)
        bytes.append(contentsOf: value)
    }

    /// Writes an instant; `endless`, which is not one, is written as `latest`.
    package mutating func timestamp(_ value: Timestamp) { integer(min(value, .latest).milliseconds) }

    package mutating func digest(_ value: Digest) { value.withBytes { bytes.append(contentsOf: $0) } }

    package mutating func optional<Value>(_ value: Value?, _ write: (inout CanonicalWriter, Value) -> Void) {
        flag(value != nil)
        if let value { write(&self, value) }
    }
}

/// Reads values in the canonical form; every shortfall is an error, never a trap, and so is every other spelling of a
/// value than the one that is written.
///
/// It only borrows the bytes, because facts are decoded by the million: an array that it owned would be retained and
/// released with every value. So it must not be kept beyond the call that lends it.
package struct CanonicalReader {
    package typealias Failure = FactCodec.DecodingFailure

    private let bytes: UnsafeRawBufferPointer
    private var index = 0

    /// Reads bytes that outlive the reader.
    fileprivate init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Lends `body` a reader of the bytes.
    package static func read<Value, Problem: Error>(
        _ bytes: [UInt8], _ body: (inout CanonicalReader) throws(Problem) -> Value
    ) throws(Problem) -> Value {
        let result: Result<Value, Problem> = bytes.withUnsafeBytes { bytes in
            var reader = CanonicalReader(bytes)
            do throws(Problem) {
                return .success(try body(&reader))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    package var isAtEnd: Bool { index == bytes.count }

    package func finish() throws(Failure) {
        guard isAtEnd else { throw .trailingBytes }
    }

    package mutating func byte() throws(Failure) -> UInt8 {
        guard index < bytes.count else { throw .truncated }
        defer { index += 1 }
        return bytes[index]
    }

    package mutating func flag() throws(Failure) -> Bool {
        switch try byte() {
        case 0: false
        case 1: true
        case let value: throw .invalid("a flag of \(value)")
        }
    }

    package mutating func integer() throws(Failure) -> Int64 {
        guard 8 <= bytes.count - index else { throw .truncated }
        let start = index
        index += 8
        return Int64(bigEndian: bytes.loadUnaligned(fromByteOffset: start, as: Int64.self))
    }

    package mutating func count() throws(Failure) -> Int {
        guard 4 <= bytes.count - index else { throw .truncated }
        let start = index
        index += 4
        let value = UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: start, as: UInt32.self))
        // A watch's Int has 32 bits.
        guard let count = Int(exactly: value) else { throw .truncated }
        return count
    }

    package mutating func data() throws(Failure) -> [UInt8] {
        let length = try count()
        guard length <= bytes.count - index else { throw .truncated }
        defer { index += length }
        return Array(bytes[index..<(index + length)])
    }

    package mutating func text() throws(Failure) -> String {
        let length = try count()
        guard length <= bytes.count - index else { throw .truncated }
        let utf8 = UnsafeRawBufferPointer(rebasing: bytes[index..<(index + length)])
        var text = String(decoding: utf8, as: UTF8.self)
        // Decoding repairs what is not UTF-8, and so would read two spellings as one text; of ASCII there is one.
        var bits: UInt8 = 0
        for byte in utf8 { bits |= byte }
        guard bits < 0x80 || text.withUTF8({ $0.elementsEqual(utf8) }) else {
            throw .invalid("a text that is not UTF-8")
        }
        index += length
        return text
    }

    /// A text that mostly is the one that was read before it, which then takes no memory of its own.
    mutating func text(likely before: String?) throws(Failure) -> String {
        let start = index
        let length = try count()
        if var before, length <= bytes.count - index, length == before.utf8.count {
            let utf8 = UnsafeRawBufferPointer(rebasing: bytes[index..<(index + length)])
            if before.withUTF8({ $0.elementsEqual(utf8) }) {
                index += length
                return before
            }
        }
        index = start
        return try text()
    }

    /// Goes past a count if it is the next one; returns whether it was.
    mutating func skip(count expected: UInt32) -> Bool {
        guard 4 <= bytes.count - index,
            UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt32.self)) == expected
        else { return false }
        index += 4
        return true
    }

    package mutating func timestamp() throws(Failure) -> Timestamp {
        let value = try integer()
        let timestamp = Timestamp(milliseconds: value)
        guard timestamp.milliseconds == value else { throw .invalid("a timestamp of \(value) ms") }
        return timestamp
    }

    package mutating func digest() throws(Failure) -> Digest {
        guard 32 <= bytes.count - index else { throw .truncated }
        defer { index += 32 }
        return Digest(loading: UnsafeRawBufferPointer(rebasing: bytes[index..<(index + 32)]))
    }

    package mutating func optional<Value>(
        _ read: (inout CanonicalReader) throws(Failure) -> Value
    ) throws(Failure) -> Value? {
        try flag() ? try read(&self) : nil
    }

    package mutating func list<Value>(
        _ read: (inout CanonicalReader) throws(Failure) -> Value
    ) throws(Failure) -> [Value] {
        let length = try count()
        var values: [Value] = []
        // The stated length is not trusted: no more is reserved than the remaining bytes could hold.
        values.reserveCapacity(min(length, (bytes.count - index) / 8))
        for _ in 0..<length { values.append(try read(&self)) }
        return values
    }
}
