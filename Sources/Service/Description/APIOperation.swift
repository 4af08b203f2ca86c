import APIDescription
import EntitlementAPI

/// What a route takes and answers: whatever is not the handler itself.
///
/// The description of the service is made from these, and requests are read by them, so a route cannot be without.
final class APIOperation: Sendable {
    /// What it is about; descriptions and the page about HTTP are in this order.
    enum Subject: String, Sendable, CaseIterable {
        case customers = "Customers"
        case devices = "Devices and checkout"
        case purchases = "Purchases"
        case log = "The log"
        case catalog = "The catalog"
        case endpoints = "Webhook endpoints"
        case console = "The console"
        case stores = "What stores send"
        case service = "The service"
    }

    struct Body: Sendable {
        enum Content: Sendable {
            case described(any (Decodable & Sendable).Type)
            /// Of somebody else's making.
            case foreign(String)
        }

        let content: Content
        let example: String
        let isRequired: Bool
        /// How many bytes it may have.
        let limit: @Sendable (Application.Limits) -> Int

        init(
            _ type: any (Decodable & Sendable).Type, _ example: String, isRequired: Bool = true,
            limit: @escaping @Sendable (Application.Limits) -> Int = { $0.otherBytes }
        ) {
            content = .described(type)
            self.example = example
            self.isRequired = isRequired
            self.limit = limit
        }

        init(
            foreign note: String, _ example: String, limit: @escaping @Sendable (Application.Limits) -> Int
        ) {
            content = .foreign(note)
            self.example = example
            isRequired = true
            self.limit = limit
        }
    }

    enum Answer: Sendable {
        case document(any (Decodable & Sendable).Type, String)
        /// Where a request would rather have it, the same as a table.
        case table(any (Decodable & Sendable).Type, String, csv: String)
        /// Of one of these media types, each with an example.
        case texts([String: String])
        /// Of a form that others lay down.
        case foreign(String, String)

        /// The type of the document, and an example of it; `nil` for what is none of the contract's.
        var described: (type: any (Decodable & Sendable).Type, example: String)? {
            switch self {
            case .document(let type, let example), .table(let type, let example, _): (type, example)
            case .texts, .foreign: nil
            }
        }
    }

    enum Header: String, Sendable, CaseIterable {
        case ledgerPosition = "Ledger-Position"
        case entityTag = "ETag"
        case cookie = "Set-Cookie"
        case disposition = "Content-Disposition"
    }

    /// Unique; what clients that are generated call it.
    let id: String
    let subject: Subject
    /// In a few words.
    let title: String
    /// What it does, in Markdown.
    let text: String
    let parameters: [Parameter]
    let body: Body?
    let answer: Answer
    /// What the answer has beside the body.
    let headers: Set<Header>
    /// What can go wrong beside what can with every route of its access.
    let codes: Set<ProblemCode>

    init(
        _ id: String, _ subject: Subject, _ title: String, _ text: String, _ parameters: [Parameter] = [],
        body: Body? = nil, answer: Answer, headers: Set<Header> = [.ledgerPosition], codes: Set<ProblemCode> = []
    ) {
        self.id = id
        self.subject = subject
        self.title = title
        self.text = text
        self.parameters = parameters
        self.body = body
        self.answer = answer
        self.headers = headers
        self.codes = codes
    }

    /// Whether a request may say this.
    func takes(_ parameter: Parameter) -> Bool {
        parameters.contains { $0.place == parameter.place && $0.name == parameter.name }
    }

    /// Whether a body of this type is what it takes.
    func takes(_ type: any Decodable.Type) -> Bool {
        guard case .described(let own)? = body?.content else { return false }
        return own == type
    }

    /// Whether an answer may be that nothing has changed.
    var answersNotModified: Bool { takes(.ifNoneMatch) }
}

extension Route {
    /// What can go wrong with it, by its access, its body and itself.
    var codes: Set<ProblemCode> {
        var codes = Self.commonCodes.union(operation.codes)
        if access != .open { codes.formUnion([.unauthenticated, .forbidden]) }
        if operation.takes(.idempotencyKey) { codes.insert(.idempotencyConflict) }
        return codes
    }

    /// What can go wrong with any.
    private static let commonCodes: Set<ProblemCode> = [
        .malformedRequest, .tooLarge, .targetTooLong, .headersTooLarge, .rateLimited, .internalError, .notImplemented,
        .unavailable,
    ]
}
