import APIDescription
import EntitlementAPI
import EntitlementCore
import Ledger

/// Something that a request may say beside its body, which is read by this declaration and described by it.
struct Parameter: Sendable {
    enum Place: String, Sendable {
        case path, query, header
    }

    let name: String
    let place: Place
    let schema: Schema
    let isRequired: Bool
    /// For people: what it means, and what holds where it is left out.
    let note: String
    /// Where it stands in an example.
    let example: WireValue?
    /// Whether it is a header field whose value is a list, which may stand on several lines.
    private(set) var isList = false

    private init(
        _ name: String, in place: Place, _ schema: Schema, isRequired: Bool = false, example: WireValue? = nil,
        _ note: String
    ) {
        self.name = name
        self.place = place
        self.schema = schema
        self.isRequired = isRequired || place == .path
        self.note = note
        self.example = example
    }

    /// How long a text may be, in bytes.
    var byteLimit: Int {
        guard case .text(let text) = schema else { return .max }
        return text.byteLimit ?? .max
    }

    /// The words it may be.
    var words: [String] {
        guard case .words(let words) = schema else { return [] }
        return words
    }

    /// The same, as a list.
    private var asList: Parameter {
        var parameter = self
        parameter.isList = true
        return parameter
    }

    private static func text(limit: Int) -> Schema { .text(Schema.Text(byteLimit: limit)) }

    private static func words<Word: CaseIterable & RawRepresentable>(_ type: Word.Type) -> Schema
    where Word.RawValue == String {
        .words(type.allCases.map(\.rawValue))
    }

    /// The longest transaction id or token looked for, in bytes: as long as a signed one can be.
    private static let identifierLimit = CommandLimits.storeID

    // MARK: - In the path

    static let customer = Parameter(
        "id", in: .path, text(limit: CustomerID.lengthLimit), example: "c-1",
        "The customer's id: your own, an account token (a UUID), or `apple:` and the id of an app transaction")
    static let appUser = Parameter(
        "app_user_id", in: .path, text(limit: CustomerID.lengthLimit), example: "c-1", "The customer's id")
    static let original = Parameter(
        "original_transaction_id", in: .path, text(limit: identifierLimit), example: "2000000123456780",
        "Of the App Store's, or one of Stripe's: `sub_…`, `pi_…`")
    static let eventPosition = Parameter(
        "position", in: .path, .integer(0...Int64.max), example: 15, "The position of the event in the log")
    static let endpoint = Parameter(
        "id", in: .path, .anyText, example: "we_1", "The id of the endpoint")

    static let chart = Parameter("name", in: .path, words(ChartName.self), example: "active", "Which chart")
    static let consoleVersion = Parameter(
        "version", in: .path, .anyText, example: "6f1ed002ab559585",
        "Which version of the page asks: files of the present one may be kept for good")
    static let consoleFile = Parameter("file", in: .path, .anyText, example: "main.js", "The name of the file")

    // MARK: - In the query

    static let environment = Parameter(
        "environment", in: .query, words(StoreEnvironment.self),
        "The key's own where that is left out, else `production`")
    static let exportEnvironment = Parameter(
        "environment", in: .query, words(StoreEnvironment.self), "Both where that is left out")
    static let at = Parameter("at", in: .query, .instant, "The instant asked about; now where it is left out")
    static let knownAt = Parameter(
        "known_at", in: .query, .text(Schema.Text(pattern: "^[0-9]+$|" + instantPattern)), example: "1234",
        "Up to where the log is believed: a position, or a recorded time; its end where that is left out. Beyond the end it is "
            + "`unprocessable`, and so is a time at which an event could still be recorded")
    static let minPosition = Parameter(
        "min_position", in: .query, .integer(0...Int64.max),
        "Waits up to 5 s until the ledger has reached that position")
    static let entitlement = Parameter(
        "entitlement", in: .query, text(limit: CatalogDocument.entitlementIDLimit), "This one alone")
    static let after = Parameter(
        "after", in: .query, .integer(0...Int64.max),
        "What follows this one: `next_after` of the page before; 0 where left out")
    static let limit = Parameter(
        "limit", in: .query, .integer(1...Int64.max), "How many at most; 100 where left out, and never more than 1000")
    static let driftClass = Parameter(
        "class", in: .query, words(DriftClass.self), "Those of one class alone")
    static let resolved = Parameter(
        "resolved", in: .query, .bool, "Those that are resolved (`true`), or open (`false`), alone")
    static let deliveryState = Parameter(
        "state", in: .query, words(DeliveryState.self), "Those in one state alone")
    static let transactionID = Parameter(
        "transaction_id", in: .query, text(limit: identifierLimit),
        "An id of the App Store's, of an original transaction or of any period; or one of Stripe's")
    static let appAccountToken = Parameter(
        "app_account_token", in: .query, text(limit: identifierLimit), "What signed statements bear")
    static let appTransactionID = Parameter(
        "app_transaction_id", in: .query, text(limit: identifierLimit), "What signed statements bear")
    static let orderID = Parameter(
        "order_id", in: .query, text(limit: 64),
        "Of the receipt that Apple sent the customer: the store is asked what it is an order of")
    static let size = Parameter(
        "size", in: .query, .integer(0...Int64.max), "How many events the tree covers; all where left out")
    static let from = Parameter(
        "from", in: .query, .integer(0...Int64.max), isRequired: true, example: 2,
        "The smaller number of events, at least 1")
    static let to = Parameter(
        "to", in: .query, .integer(0...Int64.max), "The larger number of events; all where left out")

    static let chartFrom = Parameter(
        "from", in: .query, dateOrInstant,
        "Begins with the interval of this date or instant; so many before the last, where left out, that there are 30 days, 26 "
            + "weeks or 12 months")
    static let chartTo = Parameter(
        "to", in: .query, dateOrInstant,
        "Ends with the last interval that begins before this date or instant; with the present one where left out, or that in "
            + "which the event at `known_at` was recorded")
    static let interval = Parameter(
        "interval", in: .query, words(ChartStep.self),
        "How long the intervals are, in UTC, weeks from Monday; `day` where left out")
    static let product = Parameter(
        "product_id", in: .query, text(limit: identifierLimit), "This product alone")
    static let chartFormat = Parameter(
        "format", in: .query, words(ChartFormat.self),
        "`csv` for a table; what `Accept` would rather have where it is left out, else `json`")

    /// What may be of two kinds is a text to clients: what generators make of alternatives is often sent as something else.
    private static let instantPattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ].+$"
    private static let dateOrInstant = Schema.text(
        Schema.Text(pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}$|" + instantPattern))
    static let consolePath = Parameter(
        "path", in: .query, text(limit: 256), "The `path` with which somebody signed in; `/` where left out")

    // MARK: - In headers

    static let consoleToken = Parameter(
        "Console-Token", in: .header, .anyText, "The `token` of the session, where there is one")

    static let idempotencyKey = Parameter(
        "Idempotency-Key", in: .header,
        // Characters, not bytes, which are what limits of texts count elsewhere.
        .text(Schema.Text(pattern: #"^[^\u0000-\u001f\u007f-\u009f]{1,255}$"#)),
        "Up to 255 characters, kept for a day for each API key once the command was carried out: the same request again, byte for "
            + "byte, gets the same answer, another one under the same `Idempotency-Key` is refused as `idempotency_conflict`. A "
            + "refusal is not kept")
    static let ifMatch = Parameter(
        "If-Match", in: .header, .anyText, "Refuses the change unless the catalog in force has one of these entity tags"
    ).asList
    static let ifNoneMatch = Parameter(
        "If-None-Match", in: .header, .anyText, "Answers `304` where the answer still has one of these entity tags"
    ).asList
    static let stripeSignature = Parameter(
        "Stripe-Signature", in: .header, .anyText, isRequired: true, example: "t=1763665200,v1=5257a869…",
        "Stripe's signature of the body")
    static let isSandbox = Parameter(
        "X-Is-Sandbox", in: .header, .words(["true", "false"]), "Names the environment, as RevenueCat's clients do")
}
