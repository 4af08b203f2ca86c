import StoreSimulator

/// A record as lines that a person can write down beforehand.
///
/// `ann news: +active news.monthly 01-01 | expired news.monthly 02-01`: who, the entitlement, and the stretches in
/// order, a plus for access, each up to the next one and the last without end; days of 2026 unless a year is given.
func lines(of record: Record) -> [String] {
    record.customers.flatMap { customer in
        record.customer(customer).timelines.sorted { $0.key < $1.key }.map { entitlement, intervals in
            let stretches = intervals.map { interval in
                (interval.givesAccess ? "+" : "") + interval.state.rawValue + " "
                    + interval.productID.replacing("com.example.", with: "") + " " + dateText(interval.from)
            }
            return "\(name(of: customer)) \(entitlement): " + stretches.joined(separator: " | ")
        }
    }
}

private func name(of customer: CustomerKey) -> String {
    let names = [
        Scenario.ann.customerID: "ann", Scenario.bob.customerID: "bob",
        "apple:700000000000000001": "apple-ann", "apple:700000000000000002": "apple-bob",
    ]
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
