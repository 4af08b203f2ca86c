public import Foundation

/// What a product costs on the web.
public struct WebPrice: Sendable, Hashable {
    /// In ``currencyCode``, of ``intervalCount`` times ``interval`` for a subscription.
    public let amount: Decimal
    /// In ISO 4217, such as `USD`.
    public let currencyCode: String
    /// The payment provider's word for how often it is paid (`month`, `year`); `nil` for what is paid once.
    public let interval: String?
    /// How many of them pass from one payment to the next, such as 3 for a quarter of a year.
    public let intervalCount: Int

    /// Puts one together from its parts.
    public init(amount: Decimal, currencyCode: String, interval: String? = nil, intervalCount: Int = 1) {
        self.amount = amount
        self.currencyCode = currencyCode
        self.interval = interval
        self.intervalCount = intervalCount
    }

    /// Reads an amount in the currency's smallest unit, as the payment provider counts it.
    init(minorUnits: Int64, currency: String, interval: String?, intervalCount: Int = 1) {
        let code = currency.uppercased()
        let magnitude = Decimal(minorUnits.magnitude)
        let amount = Self.decimals(of: code).reduce(magnitude) { amount, _ in amount / 10 }
        self.init(
            amount: minorUnits < 0 ? -amount : amount, currencyCode: code, interval: interval,
            intervalCount: intervalCount)
    }

    /// The amount as the payment provider counts it.
    var minorUnits: Int64 {
        let scaled = Self.decimals(of: currencyCode).reduce(amount) { amount, _ in amount * 10 }
        return NSDecimalNumber(decimal: scaled).int64Value
    }

    /// As it is to be shown in a language and region.
    public func formatted(_ locale: Locale = .current) -> String {
        amount.formatted(.currency(code: currencyCode).locale(locale))
    }

    /// How many decimals the payment provider counts, which for a few currencies are others than people use.
    private static func decimals(of code: String) -> Range<Int> {
        if withoutDecimals.contains(code) { return 0..<0 }
        return withThree.contains(code) ? 0..<3 : 0..<2
    }

    private static let withoutDecimals: Set<String> = [
        "BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF",
    ]
    private static let withThree: Set<String> = ["BHD", "JOD", "KWD", "OMR", "TND"]
}
