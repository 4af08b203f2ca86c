import PostgresClient

/// Whom the bodies of Stripe's webhooks, and the answers of its API, name, as regular expressions over evidence that PostgreSQL spells as text.
///
/// That spelling doubles each backslash, and gives bytes of 128 and more in octal, such as `\303`.
enum WebEvidence {
    /// Where a customer's id stands: our own metadata, and the reference of a session.
    private static let members = "rightful_customer_id|client_reference_id"

    /// Stripe's ids of a customer, and of what is theirs alone: subscriptions, payments, charges, invoices and sessions.
    private static let idPattern = #""((?:cus|sub|pi|ch|py|in|cs)_[A-Za-z0-9_]+)""#

    /// What finds a customer id where a body names its customer.
    static func pattern(ofCustomer id: String) -> String {
        #""(?:\#(members))"\s*:\s*""# + id.unicodeScalars.map(spellings(of:)).joined() + "\""
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
            let digits = String(unit, radix: 16)
            let padded = String(repeating: "0", count: 4 - digits.count) + digits
            return #"\\\\u"# + padded.map { $0.isLetter ? "[\($0)\($0.uppercased())]" : String($0) }.joined()
        }.joined()
    }

    /// Stripe's ids that the bodies of some events name.
    ///
    /// - Parameter isOfNobody: leaves out what names a customer of ours itself.
    static func ids(
        in positions: [Int64], ofNobody isOfNobody: Bool, on connection: isolated PostgresConnection
    ) throws -> Set<String> {
        guard !positions.isEmpty else { return [] }
        let rows = try connection.query(
            """
            SELECT DISTINCT found.matched[1] FROM unnest($2::bigint[]) AS wanted (position)
            JOIN event ON event.ledger_id = $1 AND event.position = wanted.position AND event.source IN ($3, $6)
            JOIN evidence ON evidence.ledger_id = $1 AND evidence.position = wanted.position
            CROSS JOIN LATERAL regexp_matches(encode(evidence.parts, 'escape'), $4, 'g') AS found (matched)
            WHERE event.identity IS NULL OR NOT $5
            """,
            [
                .int(ledgerID), .intArray(positions), .int2(EventSource.stripeNotification.number), .text(idPattern),
                .bool(isOfNobody), .int2(EventSource.stripeAPI.number),
            ]
        ).rows
        return try Set(rows.map { try $0.text(0) })
    }
}
