/// An ISO 8601 duration such as `P90D`, `P1Y6M` or `PT36H`, added by the calendar in UTC.
package struct CalendarDuration: Hashable, Sendable {
    package let months: Int64
    package let days: Int64
    package let seconds: Int64
    /// The text it was read from, which is also how it is written.
    package let text: String

    /// Reads a positive duration; each number has at most six digits.
    ///
    /// `nil` for anything else, `P0D` included.
    package init?(iso8601 text: String) {
        var scanner = DigitScanner(Array(text.utf8))
        guard scanner.take("P") else { return nil }
        var months: Int64 = 0
        var days: Int64 = 0
        var seconds: Int64 = 0
        var inTime = false
        // Designators must come in this order, each at most once.
        var allowed: [Unicode.Scalar] = ["Y", "M", "W", "D"]
        while !scanner.isAtEnd {
            if !inTime, scanner.take("T") {
                inTime = true
                allowed = ["H", "M", "S"]
                if scanner.isAtEnd { return nil }
                continue
            }
            guard let value = scanner.number(), let index = allowed.firstIndex(where: { scanner.take($0) })
            else { return nil }
            switch (allowed[index], inTime) {
            case ("Y", _): months += value * 12
            case ("M", false): months += value
            case ("W", _): days += value * 7
            case ("D", _): days += value
            case ("H", _): seconds += value * 3600
            case ("M", true): seconds += value * 60
            default: seconds += value
            }
            allowed.removeSubrange(...index)
        }
        guard months + days + seconds > 0 else { return nil }
        self.months = months
        self.days = days
        self.seconds = seconds
        self.text = text
    }
}

extension Timestamp {
    /// Adds months first (keeping the day of the month where it exists), then days, then seconds; `endless` stays so.
    package func adding(_ duration: CalendarDuration) -> Timestamp {
        if self == .endless { return self }
        let date = CivilDate(daysSinceEpoch: daysSinceEpoch).adding(months: duration.months)
        let days = date.daysSinceEpoch + duration.days
        let base = days * Self.millisecondsPerDay + millisecondOfDay
        return Timestamp(milliseconds: base).adding(milliseconds: duration.seconds * 1000)
    }
}
