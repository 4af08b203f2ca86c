import OpenSSLCrypto

extension StripeEventEntry {
    /// The event as it stands in a webhook's body or in a list.
    ///
    /// - Parameters:
    ///   - shape: the endpoint's version; of a list the version in which the event was made, whatever is asked for.
    ///   - pending: how many endpoints have not taken it yet, which differs at each delivery.
    package func json(_ shape: StripeShape, pending: Int64 = 0) -> PayloadValue {
        var data: [String: PayloadValue] = ["object": object.json(shape, isLive: isLive)]
        if type.hasSuffix(".updated") { data["previous_attributes"] = .object([:]) }
        return .object([
            "id": .string(id), "object": .string("event"), "type": .string(type), "created": .seconds(created),
            "api_version": .string(shape.rawValue), "livemode": .boolean(isLive),
            "pending_webhooks": .integer(pending), "data": .object(data),
            "request": .object([
                "id": .text(request), "idempotency_key": .text(request.map { "key-\($0)" }),
            ]),
        ])
    }

    /// The same without the object: only where that is to be read.
    package var thin: PayloadValue {
        let related: [String: PayloadValue] = [
            "id": .string(object.id), "type": .string(object.kind),
            "url": .string("/v1/\(object.collection)/\(object.id)"),
        ]
        return .object([
            "id": .string(id), "object": .string("v2.core.event"), "type": .string("v1.\(type)"),
            "created": .string(SimulatedStripeClock.rfc3339(created)), "livemode": .boolean(isLive), "context": .null,
            "related_object": .object(related), "reason": .null,
        ])
    }
}

/// Instants as Stripe's second API writes them.
enum SimulatedStripeClock {
    static func rfc3339(_ instant: Int64) -> String {
        let day = instant / Span.day
        var (year, rest) = (1970, day)
        func length(_ year: Int) -> Int64 {
            (SimulatedCalendar.instant(year + 1, 1, 1) - SimulatedCalendar.instant(year, 1, 1)) / Span.day
        }
        while rest >= length(year) {
            rest -= length(year)
            year += 1
        }
        var month = 1
        while month < 12, SimulatedCalendar.instant(year, month + 1, 1) <= instant { month += 1 }
        let date = (instant - SimulatedCalendar.instant(year, month, 1)) / Span.day + 1
        let time = instant % Span.day / 1000
        func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(year)-\(two(Int64(month)))-\(two(date))T\(two(time / 3600)):\(two(time / 60 % 60)):\(two(time % 60))"
            + ".000Z"
    }
}

/// Signs what is delivered to an endpoint.
package enum StripeSigner {
    /// The header `Stripe-Signature` of a body.
    ///
    /// - Parameters:
    ///   - secrets: one, or two while it is rolled; with their `whsec_`.
    ///   - instant: when it is sent, in milliseconds since 1970.
    package static func header(_ body: [UInt8], secrets: [String], at instant: Int64) -> String {
        let seconds = instant / 1000
        let message = Array("\(seconds).".utf8) + body
        let codes = secrets.map { secret in
            let code = HMACSHA256.code(of: message, key: Array(secret.utf8))
            return "v1="
                + code.map { byte in
                    let digits = String(byte, radix: 16)
                    return digits.count == 1 ? "0" + digits : digits
                }.joined()
        }
        return (["t=\(seconds)"] + codes + ["v0=\(String(repeating: "0", count: 64))"]).joined(separator: ",")
    }
}
