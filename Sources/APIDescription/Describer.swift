package import EntitlementAPI
package import EntitlementCore

/// A type whose JSON is not what its members tell.
package protocol DescribedByHand: Sampled {
    static var schema: Schema { get }
}

/// Why a type cannot be described.
package struct DescriptionError: Error, Hashable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// Finds out what JSON types are read from, by letting them read from a decoder that takes notes.
///
/// Whatever a type's `init(from:)` asks for is in its description, with the rules that it is held to in passing; so a member that
/// is added to a type is described by that alone.
package struct Describer {
    /// What was described so far, by the names of the components.
    package private(set) var components: [String: Schema] = [:]
    /// The types of the components.
    package private(set) var types: [String: any Any.Type] = [:]
    private var values: [String: Any] = [:]
    /// Whether what is described at present is sent alone, so that its words are those that are known.
    private var isSentAlone = false

    package init() {}

    /// Describes a type, and whatever it holds.
    ///
    /// - Throws: `DescriptionError`.
    package mutating func schema(of type: any Decodable.Type) throws -> Schema { try describe(type).schema }

    /// Adds what is no type of the contract.
    ///
    /// - Throws: `DescriptionError` where the name is taken.
    package mutating func add(_ schema: Schema, as name: String) throws {
        guard components[name] == nil else { throw DescriptionError("\(name) is described twice") }
        components[name] = schema
    }

    /// Describes a type beside the reading of one value of it.
    mutating func describe(_ type: any Decodable.Type) throws -> (schema: Schema, value: Any) {
        if let known = type as? any PlainlyDescribed.Type { return try known.describe(with: &self) }
        if let known = type as? any DescribedByHand.Type { return known.described }
        if let known = type as? any StandsFor.Type { return try describe(standIn: known) }
        let words = try Self.words(of: type)
        // What is sent is one of the words that are known; an answer may have one that is added later.
        if isSentAlone, let words { return (.words(words.known), words.sample) }
        let name = ComponentName.of(type)
        if let other = types[name] {
            guard other == type else { throw DescriptionError("\(other) and \(type) would both be called \(name)") }
            guard let value = values[name] else {
                throw DescriptionError("\(type) holds itself, which cannot be described yet")
            }
            return (.reference(name), value)
        }
        types[name] = type
        let (schema, value) = try words.map { (.openWords($0.known), $0.sample) } ?? component(type)
        components[name] = schema
        values[name] = value
        return (.reference(name), value)
    }

    private mutating func component(_ type: any Decodable.Type) throws -> (Schema, Any) {
        if let body = type as? any AlternativeBody.Type { return try alternatives(of: body) }
        let object = try object(type, present: { _ in true })
        return (.object(object.schema), object.value)
    }

    private mutating func describe<Type: StandsFor>(standIn type: Type.Type) throws -> (schema: Schema, value: Any) {
        let schema = try describe(Type.Meant.self).schema
        if let sampled = type as? any Sampled.Type { return (schema, sampled.anySample) }
        var own = Describer()
        let value = try own.object(type, present: { _ in true }).value
        return (schema, value)
    }

    /// The members of an object, of which only those are there that `present` says.
    private mutating func object(
        _ type: any Decodable.Type, present: @escaping @Sendable (String) -> Bool
    ) throws -> (schema: ObjectSchema, value: Any) {
        let notes = ObjectNotes(objectName: (type as? any NamedDocument.Type)?.objectName, present: present)
        let isRequest = type is any CommandBody.Type || type is any RequestPart.Type
        let outer = isSentAlone
        isSentAlone = isRequest && !(type is any AnsweredPart.Type)
        defer { isSentAlone = outer }
        let decoder = DescribingDecoder(notes: notes, describer: DescriberBox(self))
        let value: Any
        do {
            value = try type.init(from: decoder)
        } catch let error as DescriptionError {
            throw error
        } catch {
            throw DescriptionError("\(type) cannot be read from what it asks for: \(error)")
        }
        self = decoder.describer.value
        return (notes.schema(isRequest: isRequest), value)
    }

    /// What each alternative of a body has to have is found out by leaving it out.
    private mutating func alternatives(of type: any AlternativeBody.Type) throws -> (Schema, Any) {
        let all = type.alternatives.reduce(into: Set<String>()) { $0.formUnion($1.members) }
        var references: [Schema] = []
        var value: Any?
        for alternative in type.alternatives {
            let others = all.subtracting(alternative.members)
            var (schema, read) = try object(type, present: { !others.contains($0) })
            schema.members = schema.members.filter { !others.contains($0.key) }
            for member in alternative.members {
                var probe = self
                let absent = others.union([member])
                let isNeeded = (try? probe.object(type, present: { !absent.contains($0) })) == nil
                guard let described = schema.members[member] else {
                    throw DescriptionError("\(alternative.name) of \(type) never asks for \(member)")
                }
                schema.members[member]?.isRequired = isNeeded
                if isNeeded, case .nullable(let plain) = described.schema { schema.members[member]?.schema = plain }
            }
            guard components[alternative.name] == nil else {
                throw DescriptionError("\(alternative.name) is described twice")
            }
            components[alternative.name] = .object(schema)
            types[alternative.name] = type
            references.append(.reference(alternative.name))
            value = value ?? read
        }
        guard let value else { throw DescriptionError("\(type) has no alternatives") }
        return (.oneOf(references), value)
    }

    /// The words of an enumeration; `nil` for any other type.
    private static func words(of type: any Decodable.Type) throws -> (known: [String], sample: Any)? {
        guard type is any RawRepresentable.Type else { return nil }
        guard let words = (type as? any CaseIterable.Type).flatMap({ Self.cases(of: $0) }), let first = words.first
        else {
            throw DescriptionError(
                "\(type) must list its cases to be described: let it be CaseIterable, and its words texts")
        }
        return (words.map(\.word), first.value)
    }

    private static func cases<Words: CaseIterable>(of type: Words.Type) -> [(word: String, value: Any)]? {
        var words: [(String, Any)] = []
        for value in type.allCases {
            guard let raw = (value as? any RawRepresentable)?.rawValue as? String else { return nil }
            words.append((raw, value))
        }
        return words
    }
}

/// A part of a body that is read like one: what it may lack may be `null` there.
package protocol RequestPart {}

extension ReconcileRequest.Claim: RequestPart {}
extension DeviceProof: RequestPart {}

/// A part of a body that answers have as well.
package protocol AnsweredPart {}

extension CatalogProductForm: AnsweredPart {}
extension CatalogStripeForm: AnsweredPart {}
extension CatalogPolicyForm: AnsweredPart {}

/// A describer that is handed from one container to another while a type is read; on one thread, in one call.
final class DescriberBox {
    var value: Describer

    init(_ value: Describer) { self.value = value }
}

extension DescribedByHand {
    fileprivate static var described: (schema: Schema, value: Any) { (schema, sample) }
}

extension Sampled {
    fileprivate static var anySample: Any { sample }
}

extension Timestamp: DescribedByHand {
    package static var schema: Schema { .instant }
    package static var sample: Timestamp { Timestamp(milliseconds: 0) }
}

extension WireValue: DescribedByHand {
    package static var schema: Schema { .any }
    package static var sample: WireValue { .null }
}
