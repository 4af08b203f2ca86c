import APIDescription
import EntitlementAPI
import EntitlementCore
import Ledger
import RevenueCatAPI

/// The description of the service in OpenAPI 3.1: made from the routes and from the types that they read and write.
struct OpenAPIDocument {
    private var describer = Describer()
    private var parameters: [String: WireValue] = [:]
    private var responses: [String: WireValue] = [:]

    /// The document.
    ///
    /// - Throws: `DescriptionError` for a type that cannot be described.
    static func make() throws -> WireValue {
        var document = OpenAPIDocument()
        return try document.make()
    }

    private mutating func make() throws -> WireValue {
        var paths: [String: [String: WireValue]] = [:]
        for route in Route.all { paths[route.template, default: [:]][route.method.lowercased()] = try operation(route) }
        var webhooks: [String: WireValue] = [:]
        for type in MessageType.allCases {
            webhooks[type.rawValue] = ["post": try message(type)]
        }
        webhooks[MessageType.revenueCatTest] = ["post": try revenueCatTest()]
        return [
            "openapi": "3.1.0", "info": Self.info, "servers": [["url": "/"]],
            "tags": .array(
                (APIOperation.Subject.allCases.map(\.rawValue) + [Self.messageTag]).map { ["name": .string($0)] }),
            "paths": .object(paths.mapValues(WireValue.object)), "webhooks": .object(webhooks),
            "components": [
                "schemas": .object(try ComponentNotes.described(describer.components)),
                "parameters": .object(parameters), "responses": .object(responses), "headers": Self.headers,
                "securitySchemes": Self.securitySchemes,
            ],
        ]
    }

    // MARK: - Operations

    private mutating func operation(_ route: Route) throws -> WireValue {
        let operation = route.operation
        var members: [String: WireValue] = [
            "operationId": .string(operation.id), "tags": [.string(operation.subject.rawValue)],
            "summary": .string(operation.title), "description": .string(Self.unlinked(operation.text)),
            "security": Self.security(route.access), "responses": .object(try answers(of: route)),
        ]
        if !operation.parameters.isEmpty {
            members["parameters"] = .array(operation.parameters.map { reference(to: $0) })
        }
        if let body = operation.body { members["requestBody"] = try requestBody(body) }
        return .object(members)
    }

    private mutating func reference(to parameter: Parameter) -> WireValue {
        parameters[parameter.component] = parameter.json
        return ["$ref": .string("#/components/parameters/" + parameter.component)]
    }

    private mutating func requestBody(_ body: APIOperation.Body) throws -> WireValue {
        let schema: WireValue
        var note = "At most \(body.limit(Application.Limits())) bytes."
        switch body.content {
        case .described(let type): schema = try describer.schema(of: type).json
        case .foreign(let text):
            schema = ["type": "object"]
            note = text + ". " + note
        }
        return [
            "required": .bool(body.isRequired), "description": .string(note),
            "content": ["application/json": ["schema": schema, "example": try Self.example(body.example)]],
        ]
    }

    private mutating func answers(of route: Route) throws -> [String: WireValue] {
        let operation = route.operation
        var answers: [String: WireValue] = [
            "200": [
                "description": .string(operation.title), "headers": Self.headers(of: operation.headers.map(\.rawValue)),
                "content": try content(of: operation.answer),
            ]
        ]
        if operation.answersNotModified {
            answers["304"] = [
                "description": "The answer is the one that `If-None-Match` names.",
                "headers": Self.headers(of: operation.headers.map(\.rawValue)),
            ]
        }
        let isRevenueCat = RefusalShape(path: route.template) == .revenueCat
        for (status, codes) in Dictionary(grouping: route.codes, by: \.status) {
            answers[String(status)] = try problem(status, codes, isRevenueCat: isRevenueCat)
        }
        return answers
    }

    private mutating func content(of answer: APIOperation.Answer) throws -> WireValue {
        switch answer {
        case .document(let type, let example):
            return [
                "application/json": [
                    "schema": try describer.schema(of: type).json, "example": try Self.example(example),
                ]
            ]
        case .table(let type, let example, let csv):
            return [
                "application/json": [
                    "schema": try describer.schema(of: type).json, "example": try Self.example(example),
                ],
                "text/csv": ["schema": ["type": "string"], "example": .string(csv)],
            ]
        case .texts(let examples):
            return .object(examples.mapValues { ["schema": ["type": "string"], "example": .string($0)] })
        case .foreign(let note, let example):
            return [
                "application/json": [
                    "schema": ["type": "object", "description": .string(note)], "example": try Self.example(example),
                ]
            ]
        }
    }

    /// The answer to what went wrong: one for each set of codes.
    private mutating func problem(
        _ status: Int, _ codes: [ProblemCode], isRevenueCat: Bool
    ) throws -> WireValue {
        let codes = ProblemCode.allCases.filter { codes.contains($0) }
        let name = (isRevenueCat ? "RevenueCat" : "") + codes.map(\.componentName).joined(separator: "Or")
        guard responses[name] == nil else { return ["$ref": .string("#/components/responses/" + name)] }
        var headers: [String] = []
        if codes.contains(where: { [.rateLimited, .unavailable].contains($0) }) { headers.append("Retry-After") }
        if codes.contains(where: { $0.status == 401 }) { headers.append("WWW-Authenticate") }
        let schema = try describer.schema(
            of: isRevenueCat ? RevenueCatAPI.ErrorDocument.self : ProblemDocument.self)
        let example = codes.first.map { code in
            isRevenueCat ? Problem(code, code.title + ".").revenueCatJSON : Problem(code, code.title + ".").json
        }
        var response: [String: WireValue] = [
            "description": .string(codes.map { "`\($0.rawValue)`: \($0.meaning)" }.joined(separator: "; ")),
            "headers": Self.headers(of: headers),
            "content": .object([
                isRevenueCat ? "application/json" : "application/problem+json": [
                    "schema": schema.json, "example": example ?? .null,
                ]
            ]),
        ]
        if !isRevenueCat { response["x-problem-codes"] = .array(codes.map { .string($0.rawValue) }) }
        responses[name] = .object(response)
        return ["$ref": .string("#/components/responses/" + name)]
    }

    // MARK: - Webhooks

    /// Not a subject of the paths: generators write a file for each tag, and one for `webhooks`, which would replace that of
    /// the paths.
    private static let messageTag = "Webhook messages"

    private mutating func message(_ type: MessageType) throws -> WireValue {
        let name = type.componentName
        let (content, example, text) = type.described
        guard type.format != .revenueCat else {
            return try message(
                name, try revenueCat(content), text, example: try Self.revenueCat(example, type.rawValue),
                isRevenueCat: true)
        }
        let members: [String: ObjectSchema.Member] = [
            "type": .init(.word(type.rawValue), isRequired: true),
            "timestamp": .init(.instant, isRequired: true),
            "data": .init(try describer.schema(of: content), isRequired: true),
        ]
        return try message(
            name, members, text,
            example: [
                "type": .string(type.rawValue), "timestamp": "2026-11-20T13:00:00.000Z",
                "data": try Self.example(example),
            ])
    }

    /// What an endpoint of RevenueCat's format is tried with.
    private mutating func revenueCatTest() throws -> WireValue {
        try message(
            "RevenueCatTestMessage", try revenueCat(PurchaseEventDocument.self), "Somebody tries the endpoint",
            example: try Self.revenueCat(Example.revenueCatEvent, MessageType.revenueCatTest), isRevenueCat: true)
    }

    private mutating func revenueCat(_ event: any Decodable.Type) throws -> [String: ObjectSchema.Member] {
        [
            "api_version": .init(.word(EventMessage.version), isRequired: true),
            "event": .init(try describer.schema(of: event), isRequired: true),
        ]
    }

    private static func revenueCat(_ example: String, _ type: String) throws -> WireValue {
        guard case .object(var event) = try Self.example(example) else { return .null }
        event["type"] = .string(type)
        return ["api_version": .string(EventMessage.version), "event": .object(event)]
    }

    private mutating func message(
        _ name: String, _ members: [String: ObjectSchema.Member], _ text: String, example: WireValue,
        isRevenueCat: Bool = false
    ) throws -> WireValue {
        try describer.add(.object(ObjectSchema(members)), as: name)
        let security: [WireValue] = [["webhookSignature": []]] + (isRevenueCat ? [["endpointAuthorization": []]] : [])
        return [
            "operationId": .string("receive" + name), "summary": .string(text),
            "description": "Signed as Standard Webhooks lay down. Any status from 200 to 299 means that it was taken.",
            "tags": [.string(Self.messageTag)], "security": .array(security),
            "parameters": .array(
                (Self.messageHeaders + (isRevenueCat ? Self.revenueCatHeaders : [])).map { header in
                    [
                        "name": .string(header.name), "in": "header", "required": true,
                        "description": .string(header.note), "schema": header.schema.json,
                    ]
                }),
            "requestBody": [
                "required": true,
                "content": [
                    "application/json": [
                        "schema": Schema.reference(name).json, "example": example,
                    ]
                ],
            ],
            "responses": ["2XX": ["description": "It was taken."]],
        ]
    }

    private static let messageHeaders: [(name: String, schema: Schema, note: String)] = [
        ("webhook-id", .anyText, "The same at each attempt"),
        ("webhook-timestamp", .text(Schema.Text(pattern: "^[0-9]+$")), "Seconds since 1970, of the attempt"),
        ("webhook-signature", .anyText, "One or more of `v1,<base64>`, separated by blanks"),
    ]

    private static let revenueCatHeaders: [(name: String, schema: Schema, note: String)] = [
        (
            "X-RevenueCat-Webhook-Signature", .anyText,
            "`t=<seconds>` and one or more of `v1=<hex>`, separated by commas: HMAC-SHA256 over `<seconds>.<body>`, under the "
                + "whole secret, `whsec_` included"
        )
    ]

    // MARK: - What they share

    private static func headers(of names: [String]) -> WireValue {
        .object(
            Dictionary(
                uniqueKeysWithValues: (names + ["X-Request-Id"]).map { name in
                    (name, ["$ref": .string("#/components/headers/" + name)])
                }))
    }

    private static func example(_ text: String) throws -> WireValue {
        do {
            return try WireJSON.decode(WireValue.self, from: Array(text.utf8))
        } catch {
            throw DescriptionError("an example is not JSON: \(text.prefix(200))")
        }
    }

    /// A text without its links, which lead to pages.
    static func unlinked(_ text: String) -> String { text.replacing(/\[([^\]]*)\]\([^)]*\)/) { $0.1 } }

    private static func security(_ access: Route.Access) -> WireValue {
        switch access {
        case .open: []
        case .scope(let scope):
            [["secretKey": [.string(scope.rawValue)]], ["consoleSession": [.string(scope.rawValue)]]]
        case .device:
            [
                ["publishableKey": []], ["customerToken": []], ["secretKey": ["customers:write"]],
                ["consoleSession": ["customers:write"]],
            ]
        case .shop:
            [["publishableKey": []], ["secretKey": ["customers:read"]], ["consoleSession": ["customers:read"]]]
        }
    }
}
