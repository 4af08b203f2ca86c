package import AppStorePayloads

/// Who paid, as Stripe knows them.
package enum StripePayer {
    /// The customer of Stripe's, `cus_…`, whom the body of an event names; `nil` where nobody is named.
    ///
    /// - Throws: `PayloadError` for what is no JSON object.
    package static func id(inEvent body: [UInt8]) throws(PayloadError) -> String? {
        try JSONObject(parsing: body, limit: StripeEvent.byteLimit)["data"]?.object?["object"]?.object?.id("customer")
    }

    /// The same of the evidence of a ``StripeReading``.
    package static func id(inReading evidence: [UInt8]) throws(PayloadError) -> String? {
        let answers = try JSONObject(parsing: evidence, limit: StripeReading.byteLimit * 2)["answers"]?.array ?? []
        return answers.lazy.compactMap { answer -> String? in
            let body = answer.object?["body"]?.object
            return body?.id("customer") ?? body?["data"]?.object?["object"]?.object?.id("customer")
        }.first
    }
}
