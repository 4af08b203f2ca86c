import APIDescription
import EntitlementAPI
import EntitlementCore
import Foundation
import HTTPServer
import Ledger
import Testing

@testable import Service

/// The description of the service against the service.
@Suite("The OpenAPI description", .serialized, .timeLimit(.minutes(5)))
struct OpenAPITests {
    @Test("every route is described once, by its path and method, and nothing else is")
    func routes() throws {
        let paths = try #require(OpenAPIDocument.make()["paths"]).members
        var described: Set<String> = []
        for (path, methods) in paths {
            for method in methods.members.keys { described.insert("\(method.uppercased()) \(path)") }
        }
        #expect(described == Set(Route.all.map { "\($0.method) \($0.template)" }))
        #expect(described.count == Route.all.count)
        for route in Route.all {
            let request = try HTTPRequest(
                head: HTTPRequestHead(method: route.method, target: route.template.replacing(/\{[a-z_]+\}/, with: "1")))
            #expect(try Route.find(request).route.operation === route.operation, "\(route.template) is shadowed")
        }
        let operations = Route.all.map(\.operation)
        for names in [operations.map(\.id), operations.map(\.title)] { #expect(Set(names).count == names.count) }
    }

    private static func tags(_ operations: WireValue?) -> Set<WireValue> {
        var tags: Set<WireValue> = []
        for operation in (operations ?? .null).members.values.flatMap(\.members.values) {
            if case .array(let own)? = operation["tags"] { tags.formUnion(own) }
        }
        return tags
    }

    @Test("no tag is both of paths and of webhooks: generators make one file of each, and one would replace the other")
    func tags() throws {
        let document = try OpenAPIDocument.make()
        let paths = Self.tags(document["paths"])
        let webhooks = Self.tags(document["webhooks"])
        #expect(!paths.isEmpty && !webhooks.isEmpty && paths.isDisjoint(with: webhooks))
        guard case .array(let listed)? = document["tags"] else { throw DescriptionError("no tags are listed") }
        #expect(Set(listed.compactMap { $0["name"] }) == paths.union(webhooks))
    }

    /// Where a schema has this keyword, in a part of a document and in whatever that refers to.
    private static func places(
        of keyword: String, in part: WireValue, _ document: WireValue, _ seen: inout Set<String>, at place: String = ""
    ) -> [String] {
        switch part {
        case .array(let entries):
            return entries.flatMap { places(of: keyword, in: $0, document, &seen, at: place) }
        case .object(let members):
            if case .string(let reference)? = members["$ref"] {
                guard seen.insert(reference).inserted else { return [] }
                let target = reference.split(separator: "/").dropFirst().reduce(document) { $0[String($1)] ?? .null }
                return places(of: keyword, in: target, document, &seen, at: reference)
            }
            var found: [String] = []
            for (name, value) in members where name != "example" {
                if name == keyword { found.append(place) }
                found += places(of: keyword, in: value, document, &seen, at: "\(place)/\(name)")
            }
            return found
        default: return []
        }
    }

    @Test("words of answers and messages are open, so that no client refuses one that is added; of requests, closed")
    func words() throws {
        let document = try OpenAPIDocument.make()
        var seen: Set<String> = []
        var requests: Set<String> = []
        for operation in try #require(document["paths"]).members.values.flatMap(\.members.values) {
            #expect(Self.places(of: "enum", in: operation["responses"] ?? .null, document, &seen) == [])
            for part in [operation["parameters"], operation["requestBody"]].compactMap(\.self) {
                // The catalog is sent as it is answered.
                let open = Self.places(of: "x-extensible-enum", in: part, document, &requests).filter {
                    !$0.hasSuffix("RefundPolicy") && !$0.hasSuffix("DisputePolicy") && !$0.hasSuffix("ProductMode")
                }
                #expect(open == [])
            }
        }
        #expect(Self.places(of: "enum", in: document["webhooks"] ?? .null, document, &seen) == [])
        let schemas = try #require(document["components"]?["schemas"])
        let known = ReasonCode.allCases.map { WireValue.string($0.rawValue) }
        #expect(schemas["ReasonCode"]?["x-extensible-enum"] == .array(known))
        let environment = document["components"]?["parameters"]?["environment"]?["schema"]
        #expect(environment?["enum"] == ["production", "sandbox"])
        let reason = schemas["ExtensionRequest"]?["properties"]?["reason_code"]
        #expect(reason?["enum"] == .array(ExtensionReason.allCases.map { .string($0.rawValue) }))
    }

    @Test("a parameter that may be of two kinds is a text to clients, and its pattern lets pass what is taken")
    func alternatives() throws {
        let parameters = try #require(OpenAPIDocument.make()["components"]?["parameters"]).members
        for (name, parameter) in parameters {
            #expect(
                parameter["schema"]?["type"] != nil, "\(name) is one of several, which few generated clients can send")
        }
        let table: [(name: String, taken: [String], refused: [String])] = [
            (
                "known_at", ["0", "1234", "2026-11-20T12:00:00Z", "2026-11-20t12:00:00.5+01:00"],
                ["", "soon", "-1", "12a", "2026-11-20"]
            ),
            ("chartFrom", ["2026-11-20", "2026-11-20T12:00:00Z"], ["", "soon", "20261120", "2026-11-20x"]),
            ("chartTo", ["2026-11-20", "2026-11-20T12:00:00Z"], ["1234"]),
        ]
        for (name, taken, refused) in table {
            guard case .string(let pattern)? = parameters[name]?["schema"]?["pattern"] else {
                Issue.record("\(name) has no pattern")
                continue
            }
            let form = try NSRegularExpression(pattern: pattern)
            for text in taken + refused {
                let whole = NSRange(text.startIndex..., in: text)
                #expect((form.firstMatch(in: text, range: whole) != nil) == taken.contains(text), "\(name): \(text)")
            }
        }
    }

    @Test("a path's parameters are those of its template")
    func pathParameters() {
        for route in Route.all {
            let template = route.template.matches(of: /\{([a-z_]+)\}/).map { String($0.1) }
            #expect(
                route.operation.parameters.filter { $0.place == .path }.map(\.name) == template, "\(route.template)")
        }
    }

    @Test("a body may be as long as its route says, wherever that is asked")
    func bodyLimits() {
        let limits = Application.Limits()
        let asked = BodyLimits(Route.all, limits)
        for route in Route.all {
            let own = route.operation.body?.limit(limits) ?? limits.otherBytes
            let path = route.template.replacing(/\{[a-z_]+\}/, with: "a%2Fb")
            #expect(asked.limit(route.method, path) == own, "\(path)")
            #expect(asked.limit(route.method, path + "/more") == limits.otherBytes, "\(path)/more")
        }
        for method in ["GET", "HEAD", "PUT", "PATCH", ""] {
            #expect(asked.limit(method, "/v1/customers/c/reconcile") == limits.otherBytes, "\(method)")
        }
    }

    /// Reads and writes as a type does.
    private func again<Document: Codable>(_ type: Document.Type, _ json: String) throws -> WireValue {
        let document = try WireJSON.decode(type, from: Array(json.utf8))
        return try WireJSON.decode(WireValue.self, from: WireJSON.encode(document))
    }

    @Test("every example of an answer is what its type writes, no member more or less; of a body, what it reads")
    func examples() throws {
        for operation in Route.all.map(\.operation) {
            if let (type, example) = operation.answer.described, let codable = type as? any Codable.Type {
                let meant = try WireJSON.decode(WireValue.self, from: Array(example.utf8))
                #expect(try again(codable, example) == meant, "\(operation.id)")
            }
            guard let body = operation.body, case .described(let type) = body.content else { continue }
            #expect(throws: Never.self, "\(operation.id)") {
                _ = try WireJSON.decode(type, from: Array(body.example.utf8))
            }
        }
        for type in MessageType.allCases {
            let (content, example, _) = type.described
            let meant = try WireJSON.decode(WireValue.self, from: Array(example.utf8))
            #expect(try again(content, example) == meant, "\(type)")
        }
        // What is no type that is written: the parser of catalogs is what reads and writes them.
        for example in [Example.catalog, Example.catalogBody] {
            let catalog = try CatalogDocument(parsing: Array(example.utf8), from: .file)
            guard example == Example.catalog else { continue }
            let meant = try WireJSON.decode(WireValue.self, from: Array(example.utf8))
            #expect(try WireJSON.decode(WireValue.self, from: catalog.encoded(writtenAt: 3)) == meant)
        }
    }

    @Test("every parameter of a query is read: what it cannot be is refused, by its name")
    func parametersAreRead() async throws {
        let rig = try await ServiceRig.make()
        _ = try await rig.put(ServiceRig.proCatalog)
        let endpoint = try await rig.send(
            "POST", "/v1/webhook_endpoints", key: rig.admin, body: Array(#"{"url":"https://example.com/a"}"#.utf8))
        guard case .string(let id)? = try endpoint.json["id"] else { throw DescriptionError(endpoint.text) }
        for route in Route.all where route.method == "GET" {
            let path = route.template.replacing("webhook_endpoints/{id}", with: "webhook_endpoints/\(id)")
                .replacing("charts/{name}", with: "charts/active").replacing(/\{[a-z_]+\}/, with: "1")
            for parameter in route.operation.parameters where parameter.place == .query {
                let most = parameter.byteLimit == .max ? 10 : parameter.byteLimit
                // Longer than any text may be, and no number, word or instant.
                let wrong = String(repeating: "x", count: most + 1)
                let others = route.operation.parameters.filter {
                    $0.place == .query && $0.isRequired && $0.name != parameter.name
                }.map { "&\($0.name)=1" }.joined()
                let answer = try await rig.get("\(path)?\(parameter.name)=\(wrong)\(others)")
                #expect(answer.status == 400, "\(path) \(parameter.name): \(answer.text)")
                guard RefusalShape(path: path) == .problemDetails else { continue }
                let named = try WireJSON.decode(ProblemDocument.self, from: answer.body).param
                #expect(named == parameter.name, "\(path)")
            }
        }
    }

    @Test("bodies are read as their routes say: what a member of them cannot be is refused, by its name")
    func bodiesAreRead() async throws {
        let rig = try await ServiceRig.make()
        for route in Route.all where route.method == "POST" {
            guard case .described(let type)? = route.operation.body?.content, type != NotificationBody.self else {
                continue
            }
            let path = route.template.replacing(/\{[a-z_]+\}/, with: "1")
            let answer = try await rig.send(
                "POST", path, key: rig.admin,
                body: Array(#"{"environment":7,"app":7,"url":7,"from":7,"to":"x","keep_old_seconds":"x"}"#.utf8))
            #expect(answer.verdict.hasPrefix("400 ") || answer.verdict.hasPrefix("422 "), "\(path): \(answer.text)")
        }
    }

    @Test("it is served to anybody, with a strong entity tag, and is the same bytes each time")
    func served() async throws {
        let rig = try await ServiceRig.make()
        let first = try await rig.send("GET", "/v1/openapi.json")
        #expect(first.status == 200 && first.header("Content-Type") == "application/json")
        #expect(try first.json["openapi"] == .string("3.1.0"))
        let tag = try #require(first.header("ETag"))
        #expect(!tag.hasPrefix("W/"))
        let again = try await rig.send("GET", "/v1/openapi.json", headers: [("If-None-Match", tag)])
        #expect(again.status == 304 && again.body.isEmpty && again.header("ETag") == tag)
        #expect(try WireJSON.encode(OpenAPIDocument.make()) == first.body)
        #expect(try WireJSON.encode(OpenAPIDocument.make()) == WireJSON.encode(OpenAPIDocument.make()))
    }

    @Test("a route that reads what its description lacks fails, rather than be described wrongly")
    func undeclared() async throws {
        let request = try HTTPRequest(head: HTTPRequestHead(method: "GET", target: "/healthz?at=x"))
        let call = Call(request: request, parameters: [:], credential: nil, operation: .readHealth)
        #expect { try call.instant(.at) } throws: { ($0 as? Problem)?.code == .internalError }
        #expect { try call.command(LinkRequest.self) } throws: { ($0 as? Problem)?.code == .internalError }
    }

    @Test("everything that is described by a name says what it is")
    func summaries() throws {
        let schemas = try #require(OpenAPIDocument.make()["components"]?["schemas"]).members
        for (name, schema) in schemas.sorted(by: { $0.key < $1.key }) {
            #expect(schema["description"] != nil, "\(name)")
        }
    }

    @Test("a customer's token lives no longer than may be asked for")
    func tokenLifetime() {
        #expect(CustomerTokenRequestDocument.lifetimes.upperBound == CustomerTokens.longestLife)
    }
}

extension WireValue {
    /// The members of an object; none of anything else.
    var members: [String: WireValue] {
        guard case .object(let members) = self else { return [:] }
        return members
    }
}
