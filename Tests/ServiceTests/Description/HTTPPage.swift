import APIDescription
import EntitlementAPI
import Foundation

@testable import Service

/// What of docs/http.md is made from the description.
struct HTTPPage {
    private let document: WireValue

    init() throws { document = try OpenAPIDocument.make() }

    static let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../docs/http.md")
        .standardizedFileURL

    /// A page with its rendered parts as they have to be; what stands around them is left as it is.
    func rendered(over page: String) throws -> String {
        var page = page
        for (name, text) in [("routes", routes), ("codes", codes), ("reference", reference)] {
            let (begin, end) = ("<!-- rendered: \(name) -->\n", "<!-- end of \(name) -->")
            guard let first = page.range(of: begin), let last = page.range(of: end),
                first.upperBound <= last.lowerBound
            else { throw PageError(description: "docs/http.md has no place for \(name)") }
            page.replaceSubrange(first.upperBound..<last.lowerBound, with: "\n" + text + "\n")
        }
        return page
    }

    struct PageError: Error, CustomStringConvertible { let description: String }

    // MARK: - Parts

    private var routes: String {
        let rows = ordered.map { route in
            "| `\(route.method) \(route.template)` | \(access(of: route)) | [\(operation(route).text("summary"))](#\(anchor(route))) |"
        }
        return "| route | needs | does |\n|---|---|---|\n" + rows.joined(separator: "\n") + "\n"
    }

    private var codes: String {
        let rows = ProblemCode.allCases.sorted { ($0.status, $0.rawValue) < ($1.status, $1.rawValue) }.map { code in
            "| `\(code.rawValue)` | \(code.status) | \(code.meaning) |"
        }
        return "| code | status | when |\n|---|---|---|\n" + rows.joined(separator: "\n") + "\n"
    }

    private var reference: String {
        var answered: [String: Route] = [:]
        let shared = sharedParameters.sorted { $0.key < $1.key }.map(\.value).map {
            Self.item($0) { form(of: $0) }
        }
        return "Several routes take:\n\n" + shared.joined(separator: "\n") + "\n\n"
            + APIOperation.Subject.allCases.map { subject in
                let routes = ordered.filter { $0.operation.subject == subject }
                return "### \(subject.rawValue)\n\n"
                    + routes.map { section($0, &answered) }.joined(separator: "\n")
            }.joined(separator: "\n")
    }

    private var ordered: [Route] {
        APIOperation.Subject.allCases.flatMap { subject in Route.all.filter { $0.operation.subject == subject } }
    }

    private func anchor(_ route: Route) -> String {
        operation(route).text("summary").lowercased().replacing(" ", with: "-")
            .filter { $0.isLetter || $0.isNumber || $0 == "-" }
    }

    private func operation(_ route: Route) -> WireValue {
        document["paths"]?[route.template]?[route.method.lowercased()] ?? .null
    }

    // MARK: - One route

    private func section(_ route: Route, _ answered: inout [String: Route]) -> String {
        let operation = operation(route)
        var parts = [
            "#### \(operation.text("summary"))", "`\(route.method) \(route.template)` · \(access(of: route))",
            // With its links, which the description has not.
            Self.wrapped(route.operation.text),
        ]
        let references = operation["parameters"].entries.map { $0.text("$ref") }
        let shared = references.compactMap { sharedParameters[$0] }.filter { $0.text("in") != "path" }
        let own = references.filter { sharedParameters[$0] == nil }.map {
            Self.item(resolved(["$ref": .string($0)])) { form(of: $0) }
        }
        let names = shared.map { "`\($0.text("name"))`" }.joined(separator: ", ")
        if !names.isEmpty { parts.append(Self.wrapped("Takes \(names)\(own.isEmpty ? "." : ", and:")")) }
        if !own.isEmpty { parts.append(own.joined(separator: "\n")) }
        if let body = operation["requestBody"] { parts += bodyParts(body) }
        if let content = operation["responses"]?["200"]?["content"]?.members.min(by: { $0.key < $1.key }) {
            parts.append(answer(content.key, content.value, route, &answered))
        }
        let codes = ProblemCode.allCases.filter { route.operation.codes.contains($0) }.map { "`\($0.rawValue)`" }
        if !codes.isEmpty { parts.append(Self.wrapped("Errors of its own: \(codes.joined(separator: ", ")).")) }
        return parts.joined(separator: "\n\n") + "\n"
    }

    /// What three routes or more take, by the references to it.
    private var sharedParameters: [String: WireValue] {
        let references = Route.all.flatMap { operation($0)["parameters"].entries.map { $0.text("$ref") } }
        let uses = Dictionary(grouping: references) { $0 }.filter { $0.value.count >= 3 }
        return Dictionary(uniqueKeysWithValues: uses.keys.map { ($0, resolved(["$ref": .string($0)])) })
    }

    private func bodyParts(_ body: WireValue) -> [String] {
        let content = body["content"]?["application/json"] ?? .null
        let isNeeded = body["required"] == .bool(true)
        var parts = [
            Self.wrapped("\(isNeeded ? "Body" : "Body, which may be left out"): \(body.text("description"))")
        ]
        let schema = resolved(content["schema"] ?? .null)
        let alternatives = schema["oneOf"].entries.map { resolved($0) }
        if alternatives.isEmpty {
            let members = memberItems(schema)
            if !members.isEmpty { parts.append(members) }
        } else {
            parts.append(alternatives.map { memberItems($0) }.joined(separator: "\n\nor\n\n"))
        }
        parts.append(Self.block(content["example"] ?? .null))
        return parts
    }

    private func memberItems(_ schema: WireValue) -> String {
        let required = Set(schema["required"].entries.map(\.plain))
        let members = schema["properties"]?.members ?? [:]
        return members.keys.sorted { (required.contains($0) ? 0 : 1, $0) < (required.contains($1) ? 0 : 1, $1) }
            .map { name in
                Self.item(
                    name, form(of: members[name] ?? .null), nil, isRequired: required.contains(name),
                    members[name]?.text("description") ?? "")
            }.joined(separator: "\n")
    }

    private func answer(
        _ type: String, _ content: WireValue, _ route: Route, _ answered: inout [String: Route]
    ) -> String {
        guard type == "application/json" else {
            return "Answers `\(type)`:\n\n```text\n"
                + (content["example"]?.plain ?? "")
                .trimmingCharacters(in: .newlines) + "\n```"
        }
        let name = content["schema"]?.text("$ref").split(separator: "/").last.map(String.init)
        if let name, let earlier = answered[name] {
            return "Answers as [\(operation(earlier).text("summary"))](#\(anchor(earlier))) does."
        }
        if let name { answered[name] = route }
        return "Answers\(name.map { " `\($0)`" } ?? ""):\n\n" + Self.block(content["example"] ?? .null)
    }

    // MARK: - Words

    private func access(of route: Route) -> String {
        // A session of the console may whatever its key may.
        let schemes = operation(route)["security"].entries.filter { $0["consoleSession"] == nil }.map { scheme in
            scheme.members.map { name, scopes in
                let scopes = Optional(scopes).entries.map { "`\($0.plain)`" }.joined(separator: ", ")
                return switch name {
                case "publishableKey": "a publishable key"
                case "customerToken": "the customer's token"
                default: scopes
                }
            }.joined()
        }
        return schemes.isEmpty ? "no key" : schemes.joined(separator: ", or ")
    }

    /// What a schema allows, in few words.
    private func form(of schema: WireValue) -> String {
        let schema = resolved(schema)
        let words = schema["enum"].entries + schema["x-extensible-enum"].entries
        if !words.isEmpty { return words.map { "`\($0.plain)`" }.joined(separator: ", ") }
        let alternatives = schema["oneOf"].entries
        if !alternatives.isEmpty {
            return alternatives.filter { $0["type"] != .string("null") }.map { form(of: $0) }.joined(separator: "; or ")
        }
        let types = (schema["type"].entries + [schema["type"] ?? .null]).map(\.plain).filter { $0 != "null" }
        let limit = schema["maxLength"].map { ", at most \($0.plain) bytes" } ?? ""
        switch types.first {
        case "string": return (schema["format"] == .string("date-time") ? "time" : "text") + limit
        case "integer":
            guard let least = schema["minimum"] else { return "whole number" }
            return "whole number, "
                + (schema["maximum"].map { "\(least.plain) to \($0.plain)" } ?? "\(least.plain) or more")
        case "boolean": return "`true` or `false`"
        case "array":
            let most = schema["maxItems"].map { ", at most \($0.plain)" } ?? ""
            return "list of \(form(of: schema["items"] ?? .null))\(most)"
        case "object":
            let members = schema["properties"]?.members.keys.sorted().map { "`\($0)`" } ?? []
            return members.isEmpty ? "object" : "{\(members.joined(separator: ", "))}"
        default: return "any JSON"
        }
    }

    private func resolved(_ value: WireValue) -> WireValue {
        guard case .string(let reference)? = value["$ref"] else { return value }
        return reference.split(separator: "/").dropFirst().reduce(document) { $0[String($1)] ?? .null }
    }

    private static func item(_ parameter: WireValue, _ form: (WireValue) -> String) -> String {
        item(
            parameter.text("name"), form(parameter["schema"] ?? .null),
            parameter.text("in") == "query" ? nil : parameter.text("in"),
            isRequired: parameter["required"] == .bool(true) && parameter.text("in") != "path",
            parameter.text("description"))
    }

    private static func item(
        _ name: String, _ form: String, _ place: String?, isRequired: Bool, _ note: String
    ) -> String {
        let kind = [place.map { $0 == "header" ? "header" : "in the path" }, form, isRequired ? "required" : nil]
            .compactMap { $0 }.joined(separator: "; ")
        return wrapped("- `\(name)` (\(kind))" + (note.isEmpty ? "" : ": \(note)"), indent: "  ")
    }

    /// Breaks lines between words, of which no line but for a long one has more than 130 characters.
    private static func wrapped(_ text: String, indent: String = "") -> String {
        var lines: [String] = []
        for word in text.split(separator: " ", omittingEmptySubsequences: false) {
            if let last = lines.last, last.count + word.count < 130 {
                lines[lines.count - 1] = last + " " + word
            } else {
                lines.append((lines.isEmpty ? "" : indent) + word)
            }
        }
        return lines.joined(separator: "\n")
    }

    private static func block(_ value: WireValue) -> String {
        let text = (try? WireJSON.encode(value)).map { String(decoding: $0, as: UTF8.self) } ?? ""
        var lines = [""]
        // After a comma that ends a member or an entry; none of the examples has such a one within a text.
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let piece = lines == [""] ? String(part) : "," + part
            if lines[lines.count - 1].count + piece.count > 116 {
                lines[lines.count - 1] += ","
                lines.append(" " + part)
            } else {
                lines[lines.count - 1] += piece
            }
        }
        return "```json\n" + lines.joined(separator: "\n") + "\n```"
    }
}

extension WireValue {
    fileprivate var plain: String {
        switch self {
        case .string(let text): text
        case .int(let number): String(number)
        default: ""
        }
    }

    fileprivate func text(_ name: String) -> String { self[name]?.plain ?? "" }
}

extension WireValue? {
    /// The entries of a list; none of anything else.
    fileprivate var entries: [WireValue] {
        guard case .array(let entries)? = self else { return [] }
        return entries
    }
}
