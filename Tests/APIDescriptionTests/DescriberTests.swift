import EntitlementCore
import Testing

@testable import APIDescription
@testable import EntitlementAPI

/// What types read themselves from, found out by letting them.
@Suite("Describing types")
struct DescriberTests {
    private enum Colour: String, Codable, CaseIterable { case red, green }

    private struct Inner: Codable, Hashable, Sendable {
        let number: Int64
    }

    private struct Answer: Codable, Hashable, Sendable, NamedDocument {
        static let objectName = "answer"
        private(set) var object = Self.objectName
        let text: String
        let flag: Bool
        let share: Double
        let at: Timestamp
        let colour: Colour
        let leftOut: String?
        @Nullable var written: Int64?
        @Nullable var inner: Inner?
        @Nullable var shade: Colour?
        let list: [Inner]
        let byName: [String: Inner]
        let anything: WireValue
        @Written<Inner> var raw: WireValue
    }

    private struct Body: AlternativeBody {
        static let alternatives = [
            BodyAlternative("BodyByName", ["name", "why"]), BodyAlternative("BodyUndo", ["undo"]),
        ]

        let name: String?
        let why: String?
        let undo: Int64?
        let colour: Colour?
        let until: Timestamp?
        let entries: [String]

        init(from decoder: any Decoder) throws {
            let members = try decoder.container(keyedBy: CodingKeys.self)
            undo = try members.position(.undo)
            name = undo == nil ? try members.required(.name, members.text(.name, limit: 20)) : nil
            why = try members.text(.why, limit: 1000)
            guard undo == nil || why == nil else { throw members.refusal(.why, "may not stand beside undo") }
            colour = try members.word(.colour, Colour.self)
            until = try members.timestamp(.until)
            entries = try members.list(.entries, of: String.self, "a text", limit: 7)
        }
    }

    private func members(_ describer: Describer, _ name: String) throws -> [String: ObjectSchema.Member] {
        guard case .object(let object)? = describer.components[name] else {
            throw DescriptionError("there is no object \(name) among \(describer.components.keys.sorted())")
        }
        return object.members
    }

    @Test("an answer's members: their types, which are always there, which may be null, and which may be left out")
    func answer() throws {
        var describer = Describer()
        #expect(try describer.schema(of: Answer.self) == .reference("DescriberTestsAnswer"))
        let inner = Schema.reference("DescriberTestsInner")
        let colour = Schema.reference("DescriberTestsColour")
        let expected: [String: ObjectSchema.Member] = [
            "object": .init(.word("answer"), isRequired: true), "text": .init(.anyText, isRequired: true),
            "flag": .init(.bool, isRequired: true), "share": .init(.number, isRequired: true),
            "at": .init(.instant, isRequired: true), "colour": .init(colour, isRequired: true),
            "leftOut": .init(.anyText, isRequired: false), "written": .init(.nullable(.anyInteger), isRequired: true),
            "inner": .init(.nullable(inner), isRequired: true), "shade": .init(.nullable(colour), isRequired: true),
            "list": .init(.list(inner, limit: nil), isRequired: true), "byName": .init(.map(inner), isRequired: true),
            "anything": .init(.any, isRequired: true), "raw": .init(inner, isRequired: true),
        ]
        #expect(try members(describer, "DescriberTestsAnswer") == expected)
        // Of an answer there may be others one day.
        #expect(describer.components["DescriberTestsColour"] == .openWords(["red", "green"]))
        #expect(try members(describer, "DescriberTestsInner") == ["number": .init(.anyInteger, isRequired: true)])
    }

    @Test("a body's rules are those that its reading holds it to, and what excludes each other is told apart")
    func body() throws {
        var describer = Describer()
        #expect(try describer.schema(of: Body.self) == .reference("DescriberTestsBody"))
        #expect(
            describer.components["DescriberTestsBody"] == .oneOf([.reference("BodyByName"), .reference("BodyUndo")]))
        let text = Schema.text(Schema.Text(byteLimit: 20))
        let shared: [String: ObjectSchema.Member] = [
            // What is sent is one of those that are known.
            "colour": .init(.nullable(.words(["red", "green"])), isRequired: false),
            "until": .init(.nullable(.instant), isRequired: false),
            "entries": .init(.nullable(.list(.anyText, limit: 7)), isRequired: false),
        ]
        let why = ObjectSchema.Member(.nullable(.text(Schema.Text(byteLimit: 1000))), isRequired: false)
        let named: [String: ObjectSchema.Member] = ["name": .init(text, isRequired: true), "why": why]
        #expect(try members(describer, "BodyByName") == shared.merging(named) { $1 })
        let undo: [String: ObjectSchema.Member] = ["undo": .init(.integer(1...Int64.max), isRequired: true)]
        #expect(try members(describer, "BodyUndo") == shared.merging(undo) { $1 })
    }

    @Test("what is described is read by the same rules")
    func rulesHold() throws {
        func read(_ text: String) -> String {
            do throws(CommandBodyError) {
                _ = try Body(parsing: Array(text.utf8))
                return "read"
            } catch { return error.path }
        }
        #expect(read(#"{"name":"\#(String(repeating: "x", count: 20))","colour":null}"#) == "read")
        #expect(read(#"{"name":"\#(String(repeating: "x", count: 21))"}"#) == "name")
        #expect(read(#"{"name":"x","colour":"blue"}"#) == "colour")
        #expect(read(#"{"name":"x","entries":["","","","","","","",""]}"#) == "entries")
        #expect(read(#"{"undo":0}"#) == "undo")
        #expect(read(#"{"undo":1,"why":"x"}"#) == "why")
        #expect(read(#"{}"#) == "name")
    }

    private enum Closed: String, Codable { case one }
    private struct WithClosed: Codable { let word: Closed }
    private struct ByItself: Decodable {
        init(from decoder: any Decoder) throws { _ = try decoder.singleValueContainer() }
    }
    private struct Tree: Codable { let children: [Tree] }

    @Test("what cannot be described is refused rather than left out")
    func refusals() throws {
        for type: any Decodable.Type in [WithClosed.self, ByItself.self, Tree.self] {
            var describer = Describer()
            #expect(throws: DescriptionError.self, "\(type)") { try describer.schema(of: type) }
        }
        var describer = Describer()
        try describer.add(.any, as: "Message")
        #expect(throws: DescriptionError.self) { try describer.add(.any, as: "Message") }
    }

    @Test("components are called by their types, without what every type of the contract has in its name")
    func names() {
        #expect(ComponentName.of(EntitlementsDocument.self) == "Entitlements")
        #expect(ComponentName.of(TimelineDocument.Interval.self) == "TimelineInterval")
        #expect(ComponentName.of(ListDocument<EventDocument>.self) == "EventList")
        #expect(ComponentName.of(OwnershipWord.self) == "Ownership")
        #expect(ComponentName.of(CatalogProductForm.self) == "CatalogProduct")
    }

    @Test("schemas are written in the words of JSON Schema 2020-12")
    func json() throws {
        let table: [(Schema, String)] = [
            (.any, "{}"), (.word("a"), #"{"const":"a","type":"string"}"#),
            (
                .openWords(["a", "b"]),
                #"{"description":"Known so far: `a`, `b`.","type":"string","x-extensible-enum":["a","b"]}"#
            ),
            (.text(.init(pattern: "^a|b$")), #"{"pattern":"^a|b$","type":"string"}"#),
            (.integer(1...5), #"{"format":"int64","maximum":5,"minimum":1,"type":"integer"}"#),
            (.nullable(.instant), #"{"format":"date-time","type":["string","null"]}"#),
            (.nullable(.reference("A")), ##"{"oneOf":[{"$ref":"#/components/schemas/A"},{"type":"null"}]}"##),
            (.text(.init(byteLimit: 9)), #"{"maxLength":9,"minLength":1,"type":"string"}"#),
            (.list(.bool, limit: 3), #"{"items":{"type":"boolean"},"maxItems":3,"type":"array"}"#),
            (.map(.number), #"{"additionalProperties":{"type":"number"},"type":"object"}"#),
            (
                .object(
                    .init(["a": .init(.bool, isRequired: true, note: "What"), "b": .init(.any, isRequired: false)])),
                #"{"properties":{"a":{"description":"What","type":"boolean"},"b":{}},"required":["a"],"type":"object"}"#
            ),
        ]
        for (schema, expected) in table {
            #expect(String(decoding: try WireJSON.encode(schema.json), as: UTF8.self) == expected)
        }
    }
}
