package import APIDescription
import EntitlementAPI
import EntitlementCore
import HTTPServer
package import RevenueCatAPI

// What of the description stands once.
extension OpenAPIDocument {
    static let info: WireValue = [
        // The version is the contract's, not the program's: it changes with the prefix `/v1`.
        "title": "Rightful", "version": "1", "license": ["name": "Apache 2.0", "identifier": "Apache-2.0"],
        "summary": "An event-sourced ledger of what customers of an app are entitled to.",
        "description": .string(
            """
            JSON in and out; times are RFC 3339 in UTC with milliseconds; ids are opaque texts, and one that is a UUID is \
            compared in lower case. Members and query parameters of a request that are not described are ignored. A described \
            parameter that stands there twice is refused, in a header field where the two differ, and so is a body in which an object has a name twice, unless a store \
            sends it. Where `maxLength` stands, bytes of UTF-8 count, of which a text may have no more; ids and names have no \
            control characters.

            Within `/v1` members and words are added, and none is changed or removed: a client passes over what it does not \
            know. Words of answers are open texts, with those known so far in `x-extensible-enum`. Errors are RFC 9457; `code` never changes its meaning.

            `environment` is the key's own where it is left out, else `production`. What is another app's is to a key of one \
            app as if it did not exist.
            """),
    ]

    static let headers: WireValue = [
        "Ledger-Position": [
            "description": "The position of the log that the answer rests on.",
            "schema": ["type": "integer", "format": "int64", "minimum": 0],
        ],
        "ETag": ["description": "Names the answer as it is.", "schema": ["type": "string"]],
        "Set-Cookie": [
            "description": "The session's cookie, or that it is to be thrown away.", "schema": ["type": "string"],
        ],
        "Content-Disposition": [
            "description": "Under which name to keep the answer, where it is a file.", "schema": ["type": "string"],
        ],
        "Retry-After": ["description": "In how many seconds to come again.", "schema": ["type": "integer"]],
        "WWW-Authenticate": ["description": "How to authenticate.", "schema": ["type": "string"]],
        "X-Request-Id": [
            "description": "Names the request in the service's log.", "schema": ["type": "string"],
        ],
    ]

    static let securitySchemes: WireValue = [
        "secretKey": [
            "type": "http", "scheme": "bearer", "bearerFormat": "rightful_sk_…",
            "description": .string(
                "A secret key, with one of the scopes that a route names, or `admin`, which is all of them. It may be bound "
                    + "to one environment or one app."),
        ],
        "consoleSession": [
            "type": "apiKey", "in": "cookie", "name": .string(ConsoleCookie.name),
            "description": .string(
                "A session of the console, which stands for the secret key that somebody signed in with. What is not `GET` bears "
                    + "the session's `token` in the header `\(ConsoleCookie.tokenHeader)` as well."),
        ],
        "publishableKey": [
            "type": "http", "scheme": "bearer", "bearerFormat": "rightful_pk_…",
            "description": "Ships in an app: it says which app asks, and nothing about whose device that is.",
        ],
        "customerToken": [
            "type": "http", "scheme": "bearer",
            "description": "Short-lived, made by `createCustomerToken` for one customer's device.",
        ],
        "webhookSignature": [
            "type": "apiKey", "in": "header", "name": "webhook-signature",
            "description": .string(
                "HMAC-SHA256 over `<webhook-id>.<webhook-timestamp>.<body>`, the body byte for byte, under the key that stands "
                    + "in base64 behind `whsec_` in the endpoint's secret."),
        ],
        "endpointAuthorization": [
            "type": "apiKey", "in": "header", "name": "Authorization",
            "description": "What was given as `authorization_header` of the endpoint; left out where nothing was.",
        ],
    ]
}

extension Parameter {
    /// What a description calls it.
    var component: String {
        switch (place, name) {
        case (.path, "id"): schema == .anyText ? "endpointId" : "customerId"
        case (.path, "name"): "chartName"
        case (.query, "from"), (.query, "to"):
            isOfChart ? "chart" + name.prefix(1).uppercased() + name.dropFirst() : name
        case (_, let name): name
        }
    }

    /// Positions of the log are called `from` and `to` as well.
    private var isOfChart: Bool { [Parameter.chartFrom, .chartTo].contains { $0.name == name && $0.schema == schema } }

    var json: WireValue {
        var members: [String: WireValue] = [
            "name": .string(name), "in": .string(place.rawValue),
            "description": .string(OpenAPIDocument.unlinked(note)),
            "schema": schema.json,
        ]
        if isRequired { members["required"] = true }
        members["example"] = example
        return .object(members)
    }
}

extension ProblemCode {
    /// Such as `NotFound`.
    var componentName: String {
        rawValue.split(separator: "_").map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
    }
}

extension Problem {
    var json: WireValue { Self.json(of: response(requestID: "req_0f3a9c5d7e1b2468").body) }

    var revenueCatJSON: WireValue {
        Self.json(of: RefusalShape.revenueCat.response(to: self, requestID: "req_0f3a9c5d7e1b2468").body)
    }

    private static func json(of body: [UInt8]) -> WireValue {
        (try? WireJSON.decode(WireValue.self, from: body)) ?? .null
    }
}

extension MessageType {
    /// What `type` is where an endpoint of RevenueCat's format is tried.
    static let revenueCatTest = "TEST"

    /// Such as `EntitlementsChangedMessage`, or `RevenueCatInitialPurchaseMessage`.
    var componentName: String {
        let words = rawValue.lowercased().split { $0 == "." || $0 == "_" }.map {
            $0.prefix(1).uppercased() + $0.dropFirst()
        }
        return (format == .revenueCat ? "RevenueCat" : "") + words.joined() + "Message"
    }

    /// The type of its data, of RevenueCat's of its event, an example of that, and when it is sent.
    var described: (content: any Codable.Type, example: String, text: String) {
        switch self {
        case .entitlementsChanged:
            (EntitlementsChangeDocument.self, Example.change, "A customer's answer has become another")
        case .eventRecorded: (EventDocument.self, Example.recordedEvent, "Something came into the log")
        case .ownershipConflict: (ConflictDocument.self, Example.conflict, "Somebody claims what is somebody else's")
        case .driftFound:
            (DriftListDocument.Item.self, Example.driftItem, "Device, ledger and store say something different")
        case .streamSilent: (StreamsDocument.Item.self, Example.streamItem, "A store's notifications do not arrive")
        case .streamRecovered: (StreamsDocument.Item.self, Example.streamItem, "A store's notifications arrive again")
        case .test: (EndpointTestDocument.self, #"{"endpoint":"we_1"}"#, "Somebody tries the endpoint")
        case .initialPurchase: Self.purchase("A subscription was bought for the first time")
        case .renewal: Self.purchase("A subscription goes on, or begins again")
        case .productChange: Self.purchase("A subscription goes on with another product")
        case .cancellation: Self.purchase("Renewing was turned off, or what was paid is given back")
        case .uncancellation: Self.purchase("Renewing was turned on again")
        case .billingIssue: Self.purchase("A renewal could not be charged")
        case .expiration: Self.purchase("Access has ended")
        case .nonRenewingPurchase: Self.purchase("Something was bought, or granted, that does not renew")
        case .subscriptionExtended: Self.purchase("A period ends later than it was to, or access is back")
        case .refundReversed: Self.purchase("A refund was taken back")
        case .transfer:
            (
                TransferEventDocument.self, Example.revenueCatTransfer,
                "Purchases went from one customer to another"
            )
        }
    }

    private static func purchase(_ text: String) -> (any Codable.Type, String, String) {
        (PurchaseEventDocument.self, Example.revenueCatEvent, text)
    }
}

extension WholeSecond: DescribedByHand {
    package static var schema: Schema { .instant }
    package static var sample: WholeSecond { WholeSecond(Timestamp(milliseconds: 0)) }
}
