import EntitlementCore

/// How a list writes each customer whose id is a UUID.
///
/// To RevenueCat, and perhaps to others, ids that differ in case alone are two customers; here they are one, who would get what
/// both have bought.
struct CustomerSpellings {
    /// How many are named at most.
    private static let limit = 1000

    private var first: [CustomerID: (text: String, place: String)] = [:]
    private var others: [String] = []

    /// Notes how a customer is written in a line.
    mutating func note(_ customer: CustomerID, as text: String, _ place: String) {
        // Any other id is kept as it is written.
        guard CustomerID.isUUID(text) else { return }
        guard let known = first[customer] else { return first[customer] = (text, place) }
        if known.text != text { others.append("'\(text)' in \(place), and '\(known.text)' in \(known.place)") }
    }

    /// - Throws: `CommandFailure` that lists the ids which are written in several ways.
    func refuseSeveral() throws(CommandFailure) {
        guard !others.isEmpty else { return }
        throw CommandFailure(
            description: "ids that differ in case alone may be two customers elsewhere, and are one here: "
                + others.prefix(Self.limit).joined(separator: "; ")
                + "; write each customer's id in one way, and give one of two customers another; nothing was imported")
    }
}
