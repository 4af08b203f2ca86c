import EntitlementCore
import PostgresClient

/// Whom the bodies of Stripe's webhooks, and the answers of its API, name, as regular expressions over evidence that
/// PostgreSQL spells as text.
///
/// That spelling doubles each backslash, and gives bytes of 128 and more in octal, such as `\303`.
enum WebEvidence {
    /// Where a customer's id stands: our own metadata, and the reference of a session.
    private static let members = "rightful_customer_id|client_reference_id"

    /// Stripe's ids of a customer, and of what is theirs alone: subscriptions, payments, charges, invoices and sessions.
    private static let idPattern = #""((?:cus|sub|pi|ch|py|in|cs)_[A-Za-z0-9_]+)""#

    /// Where Stripe's objects give the address of whoever pays.
    private static let mailMembers = "email|customer_email|customer_email_address|receipt_email"

    private static let mailPattern =
        #""(?:\#(mailMembers))"\s*:\s*"((?:[^"\\[:space:]]|\\[0-7]{3}|\\\\u[0-9a-fA-F]{4})+)""#

    /// What finds a customer id where a body names its customer.
    static func pattern(ofCustomer id: String) -> String {
        #""(?:\#(members))"\s*:\s*""# + id.unicodeScalars.map(spellings(of:)).joined() + "\""
    }

    /// What finds a mail address, and none that another one is part of, wherever it stands and in whichever case.
    static func pattern(ofMailAddress address: String) -> String {
        // A line before it may have ended in a text.
        #"(?:(?<![A-Za-z0-9._%+-])|(?<=\\\\[nrt]))"# + address.unicodeScalars.map(spellings(of:)).joined()
            + #"(?!\.?[A-Za-z0-9-])"#
    }

    /// How JSON may spell a character inside a text.
    private static func spellings(of scalar: Unicode.Scalar) -> String {
        if scalar.isASCII, scalar.properties.isAlphabetic || scalar.properties.numericType != nil {
            return String(scalar)
        }
        let plain =
            switch scalar {
            case "\"": #"\\\\""#
            case "\\": #"\\\\\\\\"#
            case "/": #"(?:\\\\)?/"#
            default: String(scalar).utf8.map(spelling(of:)).joined()
            }
        return "(?:\(plain)|\(escaped(scalar)))"
    }

    private static func spelling(of byte: UInt8) -> String {
        guard byte >= 0x80 else { return "\\" + String(UnicodeScalar(byte)) }
        return #"\\"# + String(byte, radix: 8)
    }

    /// As JSON escapes it by its number, one for each code unit of UTF-16.
    private static func escaped(_ scalar: Unicode.Scalar) -> String {
        String(scalar).utf16.map { unit in
            let digits = Hexadecimal.text(unit, digits: 4)
            return #"\\\\u"# + digits.map { $0.isLetter ? "[\($0)\($0.uppercased())]" : String($0) }.joined()
        }.joined()
    }

    /// Stripe's ids that the bodies of some events name.
    ///
    /// - Parameter isOfNobody: leaves out what names a customer of ours itself.
    static func ids(
        in positions: [Int64], ofNobody isOfNobody: Bool, on connection: isolated PostgresConnection
    ) throws -> Set<String> {
        try matches(
            of: idPattern, in: positions, "event.identity IS NULL OR NOT $5", .bool(isOfNobody), on: connection)
    }

    /// The mail addresses that the bodies of some events give, as far as these events name nobody but some people.
    static func mailAddresses(
        in positions: [Int64], of people: [IdentityRef], on connection: isolated PostgresConnection
    ) throws -> Set<ExactText> {
        let spelt = try matches(
            of: mailPattern, in: positions, "event.identity IS NULL OR event.identity = ANY ($5)",
            .intArray(people.map(\.number)), on: connection)
        return Set(spelt.compactMap { text(of: $0).map(lowercased) }.filter(isMailAddress).map { ExactText($0) })
    }

    /// In lower case as far as PostgreSQL disregards it: letters of more than one byte are spelt by these.
    private static func lowercased(_ text: String) -> String {
        String(decoding: text.utf8.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    }

    private static func isMailAddress(_ text: String) -> Bool {
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        return parts.count > 1 && text.utf8.count <= 320 && parts.allSatisfy { !$0.isEmpty }
    }

    /// What the first group of a pattern matches in the evidence of some of Stripe's events.
    private static func matches(
        of pattern: String, in positions: [Int64], _ condition: String, _ value: PostgresValue,
        on connection: isolated PostgresConnection
    ) throws -> Set<String> {
        guard !positions.isEmpty else { return [] }
        let rows = try connection.query(
            """
            SELECT DISTINCT found.matched[1] FROM unnest($2::bigint[]) AS wanted (position)
            JOIN event ON event.ledger_id = $1 AND event.position = wanted.position AND event.source IN ($3, $6)
            JOIN evidence ON evidence.ledger_id = $1 AND evidence.position = wanted.position
            CROSS JOIN LATERAL regexp_matches(encode(evidence.parts, 'escape'), $4, 'g') AS found (matched)
            WHERE \(condition)
            """,
            [
                .int(ledgerID), .intArray(positions), .int2(EventSource.stripeNotification.number), .text(pattern),
                value, .int2(EventSource.stripeAPI.number),
            ]
        ).rows
        return try Set(rows.map { try $0.text(0) })
    }

    /// What a text of JSON says that stands in evidence; `nil` where it is no text.
    private static func text(of spelling: String) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(spelling.utf8)[...]
        while let byte = rest.popFirst() {
            if byte != UInt8(ascii: "\\") {
                bytes.append(byte)
            } else if rest.first == byte {
                let digits = String(decoding: rest.dropFirst(2).prefix(4), as: UTF8.self)
                guard let scalar = UInt32(digits, radix: 16).flatMap(Unicode.Scalar.init) else { return nil }
                bytes += Array(String(scalar).utf8)
                rest = rest.dropFirst(6)
            } else {
                guard let byte = UInt8(String(decoding: rest.prefix(3), as: UTF8.self), radix: 8) else { return nil }
                bytes.append(byte)
                rest = rest.dropFirst(3)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
