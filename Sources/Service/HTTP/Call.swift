import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

/// A request whose route and sender are known, and how its parameters are read.
struct Call: Sendable {
    let request: HTTPRequest
    /// Of the path, percent-decoded.
    let parameters: [String: String]
    /// `nil` where none is needed.
    let credential: Credential?

    /// The API key that sends it; `nil` for a customer token, and where none is needed.
    var key: APIKey? { credential?.key }

    /// What of the log its sender may hear of.
    var scope: LogScope { credential?.scope ?? .whole }

    /// The longest transaction id or token looked for, in bytes: as long as a signed one can be.
    private static let identifierLimit = 512

    /// The customer the path names.
    func customerID(_ name: String = "id") throws(Problem) -> CustomerID {
        guard let id = CustomerID(parameters[name] ?? "") else {
            throw Problem(
                .malformedRequest,
                "A customer id has 1 to \(CustomerID.lengthLimit) bytes and no control characters.", param: name)
        }
        return id
    }

    /// An identifier of the store's, in the path.
    func storeIdentifier(_ name: String) throws(Problem) -> String {
        try Self.storeIdentifier(parameters[name] ?? "", name: name)
    }

    /// An identifier of the store's, in the query.
    func queriedIdentifier(_ name: String) throws(Problem) -> String? {
        guard let value = request.queryValue(name) else { return nil }
        return try Self.storeIdentifier(value, name: name)
    }

    private static func storeIdentifier(_ value: String, name: String) throws(Problem) -> String {
        guard !value.isEmpty, value.utf8.count <= identifierLimit else {
            throw Problem(.malformedRequest, "\(name) has 1 to \(identifierLimit) bytes.", param: name)
        }
        return value
    }

    /// The environment asked about, else the credential's own, else production.
    func environment() throws(Problem) -> StoreEnvironment { try environment(orInBody: [:]) }

    /// The environment that the query or a member of the body names, else the credential's own, else production.
    ///
    /// - Throws: `malformed_request` also where the two differ; `forbidden` for one that the credential is not for.
    func environment(orInBody body: [String: WireValue]) throws(Problem) -> StoreEnvironment {
        let given = try body["environment"].map { value throws(Problem) in
            guard case .string(let text) = value else { throw Self.badEnvironment }
            return try Self.environment(text)
        }
        return try environment(or: given, of: "the body")
    }

    /// The environment that the query or another `part` of the request names, else the credential's own, else production.
    ///
    /// - Throws: `malformed_request` also where the two differ; `forbidden` for one that the credential is not for.
    func environment(or given: StoreEnvironment?, of part: String) throws(Problem) -> StoreEnvironment {
        let queried = try request.queryValue("environment").map(Self.environment)
        if let queried, let given, queried != given {
            throw Problem(
                .malformedRequest, "The query and \(part) name different environments.", param: "environment")
        }
        let environment = queried ?? given ?? credential?.onlyEnvironment ?? .production
        if let only = credential?.onlyEnvironment, only != environment {
            throw Problem(.forbidden, "This credential is for \(only.rawValue) alone.", param: "environment")
        }
        return environment
    }

    private static func environment(_ text: String) throws(Problem) -> StoreEnvironment {
        guard let environment = StoreEnvironment(rawValue: text) else { throw badEnvironment }
        return environment
    }

    private static var badEnvironment: Problem {
        Problem(.malformedRequest, "environment is production or sandbox.", param: "environment")
    }

    /// The members of a body that is a JSON object, without those that are null; none where there is no body.
    func bodyMembers() throws(Problem) -> [String: WireValue] {
        guard !request.body.isEmpty else { return [:] }
        guard let members = try? WireJSON.decode([String: WireValue].self, from: request.body) else {
            throw Problem(.malformedRequest, "The body is a JSON object.")
        }
        return members.filter { $0.value != .null }
    }

    /// An RFC 3339 instant of the query.
    func instant(_ name: String) throws(Problem) -> Timestamp? {
        guard let text = request.queryValue(name) else { return nil }
        guard let instant = Self.instant(text) else {
            throw Problem(
                .malformedRequest, "\(name) is an RFC 3339 time, such as 2026-11-20T19:00:00Z; write + as %2B.",
                param: name)
        }
        return instant
    }

    /// A whole number of the query, 0 or more; one too large to hold counts as the largest.
    func wholeNumber(_ name: String) throws(Problem) -> Int64? {
        guard let text = request.queryValue(name) else { return nil }
        guard let number = Self.wholeNumber(text) else {
            throw Problem(.malformedRequest, "\(name) is a whole number, 0 or more.", param: name)
        }
        return number
    }

    /// Up to where the log is to be believed: a position, or a recorded time.
    func knownAt() throws(Problem) -> KnownAt {
        guard let text = request.queryValue("known_at") else { return .head }
        if let position = Self.wholeNumber(text) { return .position(position) }
        if let instant = Self.instant(text) { return .recorded(instant) }
        throw Problem(
            .malformedRequest, "known_at is a position, or an RFC 3339 time; write + as %2B.", param: "known_at")
    }

    /// Where a page begins, and how long it is at most.
    func page() throws(Problem) -> (after: Int64, limit: Int) {
        let after = try wholeNumber("after") ?? 0
        let limit = try wholeNumber("limit") ?? 100
        guard limit > 0 else { throw Problem(.malformedRequest, "limit is 1 or more.", param: "limit") }
        return (after, Int(min(limit, Int64(LedgerReader.pageLimit))))
    }

    /// An RFC 3339 time, also one whose `+` was not percent-encoded and so was read as a space.
    private static func instant(_ text: String) -> Timestamp? {
        if let instant = Timestamp(rfc3339: text) { return instant }
        guard let space = text.lastIndex(of: " ") else { return nil }
        return Timestamp(rfc3339: text[..<space] + "+" + text[text.index(after: space)...])
    }

    static func wholeNumber(_ text: String) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int64(text) ?? .max
    }
}
