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
    /// What its route takes and answers.
    let operation: APIOperation

    /// The API key that sends it; `nil` for a customer token, and where none is needed.
    var key: APIKey? { credential?.key }

    /// Who gives the order, as the log records it: the name of the key.
    var actor: String? { key?.name }

    var isSentWithSecretKey: Bool { if case .secretKey = credential { true } else { false } }

    /// The part of the log that its sender may see.
    var scope: LogScope { credential?.scope ?? .whole }

    /// The customer the path names.
    func customerID(_ parameter: Parameter = .customer) throws(Problem) -> CustomerID {
        guard let id = CustomerID(try value(of: parameter) ?? "") else {
            throw Problem(
                .malformedRequest,
                "A customer id has 1 to \(CustomerID.lengthLimit) bytes and no control characters.",
                param: parameter.name)
        }
        return id
    }

    /// Refuses a request in which one parameter of the route stands twice: which of them is meant nobody can tell.
    ///
    /// A header field that says the same again is let pass, since proxies do that.
    func refuseRepeatedParameters() throws(Problem) {
        for parameter in operation.parameters {
            switch parameter.place {
            case .query:
                guard request.query.count > 1, request.query.count(where: { $0.name == parameter.name }) > 1 else {
                    continue
                }
                throw Problem(
                    .malformedRequest, "The query has \(parameter.name) twice; leave one of them.",
                    param: parameter.name)
            case .header where !parameter.isList:
                let values = request.headerValues(parameter.name)
                guard values.dropFirst().contains(where: { !$0.utf8.elementsEqual(values[0].utf8) }) else { continue }
                throw Problem(
                    .malformedRequest, "The request has \(parameter.name) twice; leave one of them.",
                    param: parameter.name)
            case .path, .header: continue
            }
        }
    }

    /// What the request says of something, as it was sent; `nil` where it says nothing.
    ///
    /// - Throws: our own fault, where the route does not say that it takes that: it would be in no description.
    func value(of parameter: Parameter) throws(Problem) -> String? {
        guard operation.takes(parameter) else {
            var problem = Problem(.internalError, "The server failed; its log says more under this request_id.")
            problem.cause = "\(operation.id) reads \(parameter.name), which its description lacks"
            throw problem
        }
        return switch parameter.place {
        case .path: parameters[parameter.name]
        case .query: request.queryValue(parameter.name)
        case .header: parameter.isList ? request.headerList(parameter.name) : request.header(parameter.name)
        }
    }

    /// A text of 1 byte to as many as the parameter may have.
    func text(_ parameter: Parameter) throws(Problem) -> String? {
        guard let value = try value(of: parameter) else { return nil }
        guard !value.isEmpty, value.utf8.count <= parameter.byteLimit else {
            throw Problem(
                .malformedRequest, "\(parameter.name) has 1 to \(parameter.byteLimit) bytes.", param: parameter.name)
        }
        return value
    }

    /// One of the words that the parameter may be.
    func word<Word: RawRepresentable>(_ parameter: Parameter, _ type: Word.Type) throws(Problem) -> Word?
    where Word.RawValue == String {
        guard let value = try value(of: parameter) else { return nil }
        guard parameter.words.contains(value), let word = Word(rawValue: value) else {
            throw Problem(
                .malformedRequest, "\(parameter.name) is one of \(parameter.words.joined(separator: ", ")).",
                param: parameter.name)
        }
        return word
    }

    /// `true` or `false`.
    func flag(_ parameter: Parameter) throws(Problem) -> Bool? {
        guard let value = try value(of: parameter) else { return nil }
        guard let flag = Bool(value) else {
            throw Problem(.malformedRequest, "\(parameter.name) is true or false.", param: parameter.name)
        }
        return flag
    }

    /// An identifier of the store's, in the path.
    func storeIdentifier(_ parameter: Parameter) throws(Problem) -> String {
        guard let value = try text(parameter) else {
            throw Problem(.malformedRequest, "\(parameter.name) is missing.", param: parameter.name)
        }
        return value
    }

    /// The position that the path names.
    func position() throws(Problem) -> Int64 {
        guard let position = Self.wholeNumber(try value(of: .eventPosition) ?? "") else {
            throw Problem(.malformedRequest, "A position is a whole number.", param: Parameter.eventPosition.name)
        }
        return position
    }

    /// The environment asked about, else the credential's own, else production.
    func environment() throws(Problem) -> StoreEnvironment { try environment(named: nil) }

    /// The environment that the query or the body names, else the credential's own, else production.
    ///
    /// - Throws: `malformed_request` also where the two differ; `forbidden` for one that the credential is not for.
    func environment(named environment: StoreEnvironment?) throws(Problem) -> StoreEnvironment {
        try self.environment(or: environment, of: "the body")
    }

    /// The environment that the query or another `part` of the request names, else the credential's own, else production.
    ///
    /// - Throws: `malformed_request` also where the two differ; `forbidden` for one that the credential is not for.
    func environment(or given: StoreEnvironment?, of part: String) throws(Problem) -> StoreEnvironment {
        let queried = try word(.environment, StoreEnvironment.self)
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

    /// An RFC 3339 instant of the query.
    func instant(_ parameter: Parameter) throws(Problem) -> Timestamp? {
        guard let text = try value(of: parameter) else { return nil }
        guard let instant = Self.instant(text) else {
            throw Problem(
                .malformedRequest,
                "\(parameter.name) is an RFC 3339 time of the years 1 to 9999, such as 2026-11-20T19:00:00Z; write + as %2B.",
                param: parameter.name)
        }
        return instant
    }

    /// A whole number of the query, `least` or more; one too large to hold counts as the largest.
    func wholeNumber(_ parameter: Parameter, least: Int64 = 0) throws(Problem) -> Int64? {
        guard let text = try value(of: parameter) else { return nil }
        guard let number = Self.wholeNumber(text), least <= number else {
            throw Problem(
                .malformedRequest, "\(parameter.name) is a whole number, \(least) or more.", param: parameter.name)
        }
        return number
    }

    /// Up to where the log is to be believed: a position, or a recorded time.
    func knownAt() throws(Problem) -> KnownAt {
        guard let text = try value(of: .knownAt) else { return .head }
        if let position = Self.wholeNumber(text) { return .position(position) }
        if let instant = Self.instant(text) { return .recorded(instant) }
        throw Problem(
            .malformedRequest, "known_at is a position, or an RFC 3339 time of the years 1 to 9999; write + as %2B.",
            param: "known_at")
    }

    /// Where a page begins, and how long it is at most.
    func page() throws(Problem) -> (after: Int64, limit: Int) {
        let after = try wholeNumber(.after) ?? 0
        let limit = try wholeNumber(.limit, least: 1) ?? 100
        return (after, Int(min(limit, Int64(LedgerReader.pageLimit))))
    }

    /// An RFC 3339 time; also one whose `+` was not percent-encoded, and so was read as a space, or whose offset has no colon, as
    /// clients write that take ISO 8601's short form.
    private static func instant(_ text: String) -> Timestamp? {
        if let instant = Timestamp(rfc3339: text) { return instant }
        var bytes = Array(text.utf8)
        guard bytes.count > 6 else { return nil }
        if bytes.suffix(4).allSatisfy({ (48...57).contains($0) }) {
            bytes.insert(UInt8(ascii: ":"), at: bytes.count - 2)
        }
        let sign = bytes.count - 6
        if bytes[sign] == UInt8(ascii: " ") { bytes[sign] = UInt8(ascii: "+") }
        return Timestamp(rfc3339: String(decoding: bytes, as: UTF8.self))
    }

    private static func wholeNumber(_ text: String) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int64(text) ?? .max
    }
}
