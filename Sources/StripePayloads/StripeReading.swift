package import AppStorePayloads
package import EntitlementCore

/// What was read from Stripe's API about one original, answer by answer, until nothing more is to be read.
///
/// Refunds and disputes name no invoice, long invoices come in pages, and of statuses whose order matters the newest is read
/// again: what such look-ups brought is one event of the log, and `evidence` is what it was taken from, byte for byte.
package struct StripeReading: Sendable {
    /// One body, and where it came from.
    private struct Answer {
        let path: String
        let body: [UInt8]
    }

    /// How many answers one reading takes.
    package static let answerLimit = 64
    /// How many bytes its evidence may have.
    package static let byteLimit = 8 << 20

    package let environment: StoreEnvironment
    /// What a team's own records say of it, as a part of the evidence; it counts where Stripe itself names nobody.
    package var ownerEntry: StripeOwnerEntry? {
        get { finding.ownerEntry }
        set { finding.ownerEntry = newValue }
    }
    /// What it is about, as far as that is known by now, and it is about one alone.
    package var original: String? { try? finding.original() }

    /// Leaves out whom the records name where Stripe itself names somebody: else evidence of one person's would name another.
    package mutating func settleOwner() {
        guard let entry = finding.ownerEntry, let original else { return }
        if finding.owners.contains(where: { $0.original == original }) { finding.ownerEntry = entry.withoutCustomer }
    }
    /// A payment intent by which something was sold, as the ledger knows from what was read before; a part of the evidence.
    package var knownSale: String? {
        get { finding.knownSale }
        set { finding.knownSale = newValue }
    }
    /// What the refunds and disputes of this are about, where the log says so and Stripe is not asked; a part of the evidence.
    package var knownOriginal: String? {
        get { finding.knownOriginal }
        set { finding.knownOriginal = newValue }
    }
    /// By what a team's own records may know what was taken in.
    package var names: [String] { finding.names }
    private let readAt: Timestamp
    private let ownerMetadata: String?
    /// When the event was made whose refund or dispute is traced: what it states was so then, however late it is read.
    private var tracedAt: Timestamp?
    private var answers: [Answer] = []
    private var finding: StripeFinding
    private var asked: Set<StripeLookup> = []
    private var byteCount = 0

    /// - Parameter ownerMetadata: another key of metadata under which somebody else wrote whose a purchase is; a key by
    ///   ``StripeMetadata/isKey(_:)``.
    package init(environment: StoreEnvironment, readAt: Timestamp, ownerMetadata: String? = nil) {
        self.environment = environment
        self.readAt = readAt
        self.ownerMetadata = ownerMetadata
        finding = StripeFinding(event: nil, environment: environment)
        finding.ownerMetadata = ownerMetadata
    }

    /// Takes in what the reading is about: the body of an event, or an object out of a list.
    ///
    /// It is part of the evidence: what an event says of a refund is stated again, with what it was for.
    package mutating func add(subject body: [UInt8]) throws(PayloadError) { try add(body, path: "") }

    /// Takes in the answer to a look-up.
    package mutating func add(answer body: [UInt8], to lookup: StripeLookup) throws(PayloadError) {
        asked.insert(lookup)
        try add(body, path: lookup.path, to: lookup)
    }

    /// A look-up was answered with 404: there is no such thing.
    package mutating func addMissing(_ lookup: StripeLookup) throws(PayloadError) {
        asked.insert(lookup)
        try add(Array("{}".utf8), path: lookup.path)
    }

    private mutating func add(
        _ body: [UInt8], path: String, to lookup: StripeLookup? = nil
    ) throws(PayloadError) {
        guard answers.count < Self.answerLimit, byteCount + body.count + path.utf8.count <= Self.byteLimit else {
            throw .inconsistent(
                "a reading takes at most \(Self.answerLimit) answers and \(Self.byteLimit) bytes; this one has more")
        }
        // Read as it will stand in the evidence, so that what is taken here can be read there.
        let framed = Array(#"{"answers":[{"body":"#.utf8) + body + Array("}]}".utf8)
        let frame = try JSONObject(parsing: framed, limit: Self.byteLimit + framed.count - body.count)
        guard let answers = frame["answers"]?.array, answers.count == 1, let json = answers[0].object?["body"]?.object,
            json.text == body
        else { throw .malformed("an answer is not a JSON object and nothing else") }
        if let lookup, !lookup.isAnswered(by: json) {
            throw .inconsistent("the answer is not what was asked for")
        }
        try take(json, path: path)
    }

    private mutating func take(_ json: JSONObject, path: String) throws(PayloadError) {
        let body = json.text
        answers.append(Answer(path: path, body: body))
        byteCount += body.count + path.utf8.count
        switch json["object"]?.identifier {
        case "event":
            guard let object = json["data"]?.object?["object"]?.object else { return }
            let type = json["type"]?.identifier ?? ""
            finding.subject = (type, json.instant("created"))
            try finding.add(object)
            finding.subject = nil
            if ["refund", "dispute"].contains(StripeEventType.object(of: type)) { tracedAt = json.instant("created") }
        case "list":
            try takeList(json, path: path)
        default:
            try finding.add(json)
        }
    }

    private mutating func takeList(_ list: JSONObject, path: String) throws(PayloadError) {
        let parts = path.prefix { $0 != "?" }.split(separator: "/").map(String.init)
        if parts.count == 4, parts[1] == "invoices", parts[3] == "lines" {
            return try finding.addLines(list, of: parts[2])
        }
        if parts.count == 5, parts[2] == "sessions", parts[4] == "line_items" {
            return finding.addSessionItems(list, of: parts[3])
        }
        if parts.count == 2, parts[1] == "subscription_items", let id = Self.query("subscription", in: path) {
            return finding.addItems(list, of: id)
        }
        for element in list.elements("data") { try finding.add(element) }
        if parts.count == 2, parts[1] == "refunds", let charge = Self.query("charge", in: path), !list.flag("has_more")
        {
            finding.refundsSeen.insert(charge)
        }
    }

    private static func query(_ name: String, in path: String) -> String? {
        guard let start = path.firstIndex(of: "?") else { return nil }
        return path[path.index(after: start)...].split(separator: "&").lazy
            .map { $0.split(separator: "=", maxSplits: 1).map(String.init) }
            .first { $0.count == 2 && $0[0] == name }?[1]
    }

    /// What is to be read next; `nil` when all is known, or no more can be.
    package var next: StripeLookup? {
        finding.missing().map(\.lookup).first { !asked.contains($0) }
    }

    /// The fact, with the customer ids that it refers to.
    ///
    /// - Throws: `inconsistent` where what was read is about several originals.
    package func fact(sha256: ([UInt8]) -> Digest) throws(PayloadError) -> (WebFact, IdentityList) {
        var identities = IdentityList()
        let fact = finding.fact(
            type: WebFact.readingLabel, eventID: nil, statedAt: tracedAt ?? readAt, original: try finding.original(),
            identities: &identities)
        return (fact.hashed(sha256), identities)
    }

    // MARK: - Evidence

    /// All answers as they came, with what was asked: one JSON text.
    package var evidence: [UInt8] {
        var bytes = Array(
            (#"{"object":"web_reading","environment":"\#(environment.rawValue)","read_at":\#(readAt.milliseconds)"#
                + (ownerMetadata.map { #","owner_metadata":\#(JSONText.quoted($0))"# } ?? "")
                + (ownerEntry.map { #","owner":\#($0.json)"# } ?? "")
                + (knownSale.map { #","sale":\#(JSONText.quoted($0))"# } ?? "")
                + (knownOriginal.map { #","original":\#(JSONText.quoted($0))"# } ?? "") + #","answers":["#).utf8
        )
        for (index, answer) in answers.enumerated() {
            bytes += Array((index == 0 ? "" : ",").utf8)
            bytes += Array(#"{"path":\#(JSONText.quoted(answer.path)),"body":"#.utf8)
            bytes += answer.body + Array("}".utf8)
        }
        return bytes + Array("]}".utf8)
    }

    /// Reads evidence again, so that its fact can be derived again.
    package init(evidence bytes: [UInt8]) throws(PayloadError) {
        let json = try JSONObject(parsing: bytes, limit: Self.byteLimit * 2)
        guard json["object"]?.identifier == "web_reading",
            let environment = json["environment"]?.identifier.flatMap({ StoreEnvironment(rawValue: $0) }),
            let readAt = json["read_at"]?.timestamp, let answers = json["answers"]?.array
        else { throw .inconsistent("the evidence is of no reading of Stripe's API") }
        let ownerMetadata = json["owner_metadata"]?.string
        guard ownerMetadata.map(StripeMetadata.isKey) ?? true else {
            throw .inconsistent("the evidence names a key of metadata that none can be")
        }
        self.init(environment: environment, readAt: readAt, ownerMetadata: ownerMetadata)
        if let owner = json["owner"] {
            guard let entry = owner.object.flatMap(StripeOwnerEntry.init) else {
                throw .inconsistent("the evidence says whose it is in a way that nobody can")
            }
            ownerEntry = entry
        }
        knownSale = json["sale"]?.identifier
        knownOriginal = json["original"]?.identifier
        guard answers.count <= Self.answerLimit else { throw .inconsistent("the evidence has too many answers") }
        for answer in answers {
            guard let path = answer.object?["path"]?.string, let body = answer.object?["body"]?.object else {
                throw .inconsistent("an answer of the evidence has no path or no body")
            }
            try take(body, path: path)
        }
    }
}
