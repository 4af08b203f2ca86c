import StoreSimulator

/// A record as lines that a person can write down beforehand.
///
/// `ann news: +active news.monthly 01-01 | expired news.monthly 02-01`: who, the entitlement, and the stretches in
/// order, a plus for access, each up to the next one and the last without end; days of 2026 unless a year is given.
/// Aliases follow: `ann = cleo`.
func lines(of record: Record, cast: OwnershipCast? = nil) -> [String] {
    let timelines = record.customers.flatMap { customer in
        record.customer(customer).timelines.sorted { $0.key < $1.key }.map { entitlement, intervals in
            let stretches = intervals.map { interval in
                let product = interval.source == .grant ? "grant" : interval.productID
                return (interval.givesAccess ? "+" : "") + interval.state.rawValue + " "
                    + product.replacing("com.example.", with: "") + " " + dateText(interval.from)
            }
            return "\(name(of: customer, cast)) \(entitlement): " + stretches.joined(separator: " | ")
        }
    }
    let aliases = record.ownership.aliases.sorted { $0.key < $1.key }.map { alias, customer in
        "\(name(of: alias, cast)) = \(name(of: customer, cast))"
    }
    return timelines + aliases
}

private func name(of customer: CustomerKey, _ cast: OwnershipCast?) -> String {
    var names = [
        Scenario.ann.customerID: "ann", Scenario.bob.customerID: "bob",
        "apple:700000000000000001": "apple-ann", "apple:700000000000000002": "apple-bob",
    ]
    if let cast {
        names = [
            cast.annLogin.customerID: "ann", cast.bobLogin.customerID: "bob", cast.annApple.customerID: "apple-ann",
            cast.bobApple.customerID: "apple-bob", cast.cleo.customerID: "cleo", cast.dan.customerID: "dan",
        ]
    }
    let name = names[customer.customerID] ?? customer.customerID
    return customer.environment == .sandbox ? name + "(sandbox)" : name
}

private func dateText(_ instant: Int64) -> String {
    for year in 2026...2027 {
        for month in 1...12 {
            let begin = SimulatedCalendar.instant(year, month, 1)
            let end = SimulatedCalendar.instant(month == 12 ? year + 1 : year, month == 12 ? 1 : month + 1, 1)
            guard (begin..<end).contains(instant) else { continue }
            let rest = instant - begin
            let date = (year == 2026 ? "" : "\(year)-") + padded(Int64(month), 2) + "-" + padded(rest / Span.day + 1, 2)
            let time = rest % Span.day
            if time == 0 { return date }
            let clock = padded(time / Span.hour, 2) + ":" + padded(time % Span.hour / Span.minute, 2)
            let seconds = time % Span.minute
            if seconds == 0 { return date + " " + clock }
            return date + " " + clock + ":" + padded(seconds / Span.second, 2) + "."
                + padded(seconds % Span.second, 3)
        }
    }
    return "\(instant)"
}

private func padded(_ number: Int64, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.count)) + digits
}
