import EntitlementCore
import Foundation
import OutgoingHTTP
import Testing

@testable import StripeAPI

@Suite("What is kept of Stripe's words, and of its clock")
struct StripeWordsTests {
    @Test(
        "ids of people and of what they bought are left out of its words; what an operator has to mend stays",
        arguments: [
            ("No such customer: 'cus_9s6XKzkNRiz8i3'", "No such customer: 'cus_…'"),
            ("No such price: 'price_1NX'; a similar object exists in test mode", nil),
            ("Keys for idempotent requests (resource_missing, tax_id)", nil),
            (
                "The subscription sub_1MowQVLkdIwHu7ixeRlqHVzs has no invoice in_2",
                "The subscription sub_… has no invoice in_…"
            ),
            ("Zoë.k+shop@example.com already exists", "… already exists"),
            ("client_reference_id c-77 is unknown, c-778 is not", "client_reference_id … is unknown, c-778 is not"),
            ("cs_test_a1B2 expired", "cs_… expired"), ("", nil),
        ] as [(String, String?)])
    func words(text: String, kept: String?) {
        #expect(StripeWords.withoutIDs(text, hiding: ["c-77"]) == kept ?? text)
    }

    @Test("a failure names neither the customer that was asked about nor any of Stripe's")
    func failure() throws {
        let request = StripeRequest.post(
            "/v1/checkout/sessions",
            [
                .init("client_reference_id", "zoe"), .init("subscription_data[metadata][rightful_customer_id]", "zoe"),
                .init("customer", "cus_1A"),
            ], idempotencyKey: "k")
        let body = #"{"error":{"type":"invalid_request_error","message":"zoe (cus_1A) is not one of zoes"}}"#
        let error = StripeAPIError(
            OutgoingAnswer(status: 400, headers: [:], body: Array(body.utf8)), to: request,
            key: try #require(StripeKey("rk_test_4eC39HqLyjWDarjtT1zdp7dc")), now: Timestamp(milliseconds: Int64(0)))
        #expect(error.message == "… (…) is not one of zoes")
    }

    private static let noon = Timestamp(milliseconds: Int64(1_795_176_000_000))

    private static func answer(_ date: String?) -> OutgoingAnswer {
        OutgoingAnswer(status: 200, headers: date.map { ["Date": $0] } ?? [:], body: [])
    }

    @Test("a date is told to the second, and nothing else is a date")
    func date() {
        #expect(HTTPDate.milliseconds("Thu, 01 Jan 1970 00:00:10 GMT") == 10_000)
        #expect(HTTPDate.milliseconds("Sat, 21 Nov 2026 12:00:00 GMT") == 1_795_262_400_000)
        for other in ["", "soon", "1970-01-01T00:00:10Z", "Thu, 41 Jan 1970 00:00:10 GMT"] {
            #expect(HTTPDate.milliseconds(other) == nil, "\(other)")
        }
    }

    @Test("a clock that differs from Stripe's is told by its answers, and one that does not is let be")
    func clock() {
        let clock = StripeClock()
        let dated = "Fri, 20 Nov 2026 12:00:00 GMT"
        #expect(HTTPDate.milliseconds(dated) == Self.noon.milliseconds)
        func ahead(sentAt offset: Int64, took: Int64 = 80) -> Int64? {
            let sent = Self.noon.adding(milliseconds: offset)
            let received = sent.adding(milliseconds: took)
            clock.compare(Self.answer(dated), sentAt: sent, receivedAt: received)
            return clock.aheadMilliseconds(at: received)
        }
        #expect(clock.aheadMilliseconds(at: Self.noon) == nil && clock.reading(at: Self.noon) == Self.noon)
        for agrees in [Int64(0), 400, 999] { #expect(ahead(sentAt: agrees) == 0, "\(agrees)") }
        // Slow answers tell less, and never that a clock is wrong which is not.
        #expect(ahead(sentAt: -8000, took: 8000) == 0)
        #expect(ahead(sentAt: -7_200_000) == -7_199_920)
        #expect(ahead(sentAt: 7_200_000) == 7_200_000)
        let later = Self.noon.adding(milliseconds: 7_200_500)
        #expect(clock.reading(at: later) == Self.noon.adding(milliseconds: 500))
        clock.compare(Self.answer(nil), sentAt: Self.noon, receivedAt: Self.noon)
        clock.compare(Self.answer("yesterday"), sentAt: Self.noon, receivedAt: Self.noon)
        #expect(clock.aheadMilliseconds(at: later) == 7_200_000, "what tells no time changes nothing")
        #expect(clock.aheadMilliseconds(at: Self.noon) == nil, "it was set right since")
        #expect(clock.reading(at: Self.noon) == Self.noon)
    }
}
