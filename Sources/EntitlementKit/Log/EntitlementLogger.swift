import Foundation

/// Where a store says what it does: Apple's unified log, unless ``EntitlementConfiguration/logger`` names another place.
///
/// What is said holds nothing about a person: no customer id, token, transaction or account, nothing that was signed, and
/// no address that was asked. ``EntitlementLogMessage`` takes nothing else.
public protocol EntitlementLogger: Sendable {
    /// Called from any thread; must not block.
    func log(_ level: EntitlementLogLevel, _ category: EntitlementLogCategory, _ message: EntitlementLogMessage)
}

/// How much a message matters.
public enum EntitlementLogLevel: String, Sendable, Hashable {
    /// Of interest to whoever looks for a mistake.
    case debug
    /// Something happened, as it should.
    case info
    /// Something failed; what was bought is not lost by it.
    case error
}

/// What a message is about; new ones may come, so it is no enumeration.
public struct EntitlementLogCategory: RawRepresentable, Sendable, Hashable {
    /// The word itself.
    public let rawValue: String

    /// Takes any word, known to this version or not.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// What the customer holds, and how far that can be relied on.
    public static let state = EntitlementLogCategory(rawValue: "state")
    /// Buying and restoring.
    public static let purchase = EntitlementLogCategory(rawValue: "purchase")
    /// What is sent to the server, and what it answers.
    public static let sync = EntitlementLogCategory(rawValue: "sync")
    /// Files.
    public static let storage = EntitlementLogCategory(rawValue: "storage")
}

/// A sentence made of words that the library chose, numbers, and names that the app gave to products and entitlements.
///
/// A text that came from anywhere else cannot be put into one, but for the sentence by which the server refuses a page of the web
/// checkout, of which words that could name somebody or lead somewhere are left out.
public struct EntitlementLogMessage: ExpressibleByStringInterpolation, CustomStringConvertible, Sendable, Hashable {
    /// The sentence.
    public let description: String

    /// Takes a sentence that is written in the code.
    public init(stringLiteral value: StaticString) { description = "\(value)" }

    /// Takes a sentence with values in it.
    public init(stringInterpolation: StringInterpolation) { description = stringInterpolation.text }

    /// The parts of a sentence.
    public struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        /// Begins with nothing.
        public init(literalCapacity: Int, interpolationCount: Int) {}

        /// Adds what is written in the code.
        public mutating func appendLiteral(_ literal: StaticString) { text += "\(literal)" }

        /// Adds a number.
        public mutating func appendInterpolation(_ number: Int) { text += "\(number)" }

        /// Adds the name of a product or an entitlement, which the app chose and every customer shares.
        mutating func appendInterpolation(name: String) { text += name }

        /// Adds a word of the library's own, such as a reason.
        mutating func appendInterpolation(word: some RawRepresentable<String>) { text += word.rawValue }

        /// Adds what the server says of a refusal: its plain words, and "…" for whatever else, such as ids and addresses.
        mutating func appendInterpolation(said sentence: String) {
            let words = sentence.prefix(Self.sentenceLimit).split(separator: " ", omittingEmptySubsequences: true)
            let plain = words.map { $0.allSatisfy(Self.isPlain) && $0.count <= Self.wordLimit ? String($0) : "…" }
            text += plain.joined(separator: " ")
        }

        /// In characters.
        private static let (sentenceLimit, wordLimit) = (300, 24)

        private static func isPlain(_ character: Character) -> Bool {
            character.isLetter && character.isASCII || "'_,.:;-()".contains(character)
        }

        /// Adds an error's kind and number; what else it says may hold addresses and ids.
        mutating func appendInterpolation(error: any Error) {
            let error = error as NSError
            text += "\(error.domain) \(error.code)"
        }
    }
}
