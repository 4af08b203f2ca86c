import AppStorePayloads
import ConsoleAssets
import EntitlementCore
import Foundation
import StripePayloads
import Testing

/// What the console has words for, beside what the service may answer.
@Suite("The console's words")
struct ConsoleWordsTests {
    private static func text(_ name: String) throws -> String {
        String(decoding: try #require(ConsoleAssets.all.first { $0.name == name }).bytes, as: UTF8.self)
    }

    /// A table of the file with all texts, from its name to the end of its braces.
    private static func table(_ name: String) throws -> Substring {
        let words = try text("words.js")
        let begin = try #require(words.range(of: "\(name): {"))
        return words[begin.lowerBound...].prefix { $0 != "}" }
    }

    private static func has(_ key: String, in table: Substring) -> Bool {
        let isPlain = key.allSatisfy { $0.isLetter || $0 == "_" }
        return table.contains(isPlain ? " \(key): \"" : "\"\(key)\": \"")
    }

    @Test("each reason for which somebody has no access is said by itself, as what happened")
    func reasons() throws {
        let table = try Self.table("lostBy")
        for code in ReasonCode.allCases { #expect(Self.has(code.rawValue, in: table), "\(code.rawValue)") }
        // What is said where the reason of the loss is not that of the present, and only half of it is known to hold still.
        for name in ["unpaid", "other"] { #expect(Self.has(name, in: table), "\(name)") }
        // Stripe may have stopped trying, and nothing need have failed.
        let onWeb = try Self.table("lostOnWebBy")
        for name in ["billing_retry", "billing_given_up", "unpaid"] { #expect(Self.has(name, in: onWeb), "\(name)") }
        for word in ["store", "could not be charged"] { #expect(!onWeb.contains(word), "\(word)") }
        let sentences = try Self.text("sentence.js")
        #expect(!sentences.contains("say.lost(name, since"), "the date goes with the reason of then")
    }

    @Test("each reason for which somebody has access has a sentence")
    func access() throws {
        let sentences = try Self.text("sentence.js")
        let giving: [ReasonCode] = ReasonCode.allCases.filter {
            switch $0 {
            case .paidPeriod, .oneTimePurchase, .leeway, .grant, .gracePeriod, .billingRetry, .renewalPending, .pastDue:
                true
            case .expired, .billingGivenUp, .upgradedElsewhere, .replaced, .refunded, .familyRevoked, .grantRevoked,
                .ownedByAnother, .dispute, .cancelled, .paused:
                false
            }
        }
        for code in giving { #expect(sentences.contains("case \"\(code.rawValue)\":"), "\(code.rawValue)") }
    }

    @Test("each type of event is told in words")
    func events() throws {
        let table = try Self.table("eventTypes")
        let subtypes = [nil] + NotificationSubtype.allCases.map { Optional($0.rawValue) }
        var types = LedgerFact.eventTypes.union([WebFact.readingLabel])
        for type in NotificationType.allCases {
            for subtype in subtypes { types.insert(eventLabel(type: type.rawValue, subtype: subtype)) }
        }
        for type in types.union(StripeEventType.known).sorted() { #expect(Self.has(type, in: table), "\(type)") }
    }

    @Test("where a member of a family may be meant, it is told whether somebody bought or was given a share")
    func sharing() throws {
        let table = try Self.table("eventTypes")
        for type in ["subscribed", "resubscribed", "one_time_purchased"] {
            for ownership in [AppleOwnership.purchased, .familyShared] {
                #expect(Self.has("\(type)_\(ownership.rawValue)", in: table), "\(type), \(ownership)")
            }
            let text = table.components(separatedBy: " \(type): \"").last?.prefix { $0 != "\"" }
            #expect(text?.contains(", or shared by family") == true, "\(type) tells of both")
        }
    }
}
