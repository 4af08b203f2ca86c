/// An amount of money in one currency.
package struct Money: Hashable, Sendable {
    /// In thousandths of the currency's unit, as Apple states prices (JWSTransactionDecodedPayload, `price`): the unit in which
    /// amounts of all currencies are whole numbers.
    package let thousandths: Int64
    /// ISO 4217, three letters in upper case.
    package let currency: String

    /// The greatest amount, either way, that is believed: ten thousand million units.
    package static let limit: Int64 = 10_000_000_000_000

    /// `nil` for an amount beyond `limit`, or for what is no currency's code.
    package init?(thousandths: Int64, currency: String) {
        let code = currency.uppercased()
        guard (-Self.limit...Self.limit).contains(thousandths), code.utf8.count == 3,
            code.utf8.allSatisfy({ (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) })
        else { return nil }
        self.thousandths = thousandths
        self.currency = code
    }

    /// Another amount in the same currency; `nil` beyond `limit`.
    func with(thousandths: Int64) -> Money? {
        guard (-Self.limit...Self.limit).contains(thousandths) else { return nil }
        return Money(checked: thousandths, currency)
    }

    private init(checked thousandths: Int64, _ currency: String) {
        self.thousandths = thousandths
        self.currency = currency
    }

    /// An amount as Stripe states it: in what it takes for the currency's smallest unit (Stripe, "Supported currencies").
    ///
    /// - Returns: `nil` for an amount beyond `limit`, or for what is no currency's code.
    package init?(stripeAmount amount: Int64, currency: String) {
        let code = currency.lowercased()
        let factor: Int64 = Self.withoutDecimals.contains(code) ? 1000 : Self.withThreeDecimals.contains(code) ? 1 : 10
        let (thousandths, overflows) = amount.multipliedReportingOverflow(by: factor)
        guard !overflows else { return nil }
        self.init(thousandths: thousandths, currency: currency)
    }

    /// The same; also `nil` where Stripe stated no amount or no currency.
    init?(_ amount: Int64?, _ currency: String?) {
        guard let amount, let currency else { return nil }
        self.init(stripeAmount: amount, currency: currency)
    }

    /// The currencies whose amounts Stripe states in whole units.
    ///
    /// ISK and UGX have no decimals either, and Stripe counts hundredths of them all the same.
    private static let withoutDecimals: Set<String> = [
        "bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf",
    ]
    /// The currencies whose amounts Stripe states in thousandths.
    private static let withThreeDecimals: Set<String> = ["bhd", "jod", "kwd", "omr", "tnd"]

    /// The same in the currency's unit, for people and for formats that have no other.
    package var units: Double { Double(thousandths) / 1000 }

    /// A share of the amount, given in thousandths of a percent, rounded to the nearest thousandth of a unit.
    package func part(_ percentage: Int64) -> Money {
        // Within `limit` neither the product nor the sum is too great for 64 bits.
        let percentage = min(max(percentage, 0), 100_000)
        return Money(unchecked: (thousandths * percentage + (thousandths < 0 ? -50_000 : 50_000)) / 100_000, currency)
    }

    private init(unchecked thousandths: Int64, _ currency: String) {
        (self.thousandths, self.currency) = (thousandths, currency)
    }
}
