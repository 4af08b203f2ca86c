/// Lengths of time in milliseconds.
package enum Span {
    /// One second.
    package static let second: Int64 = 1_000
    /// One minute.
    package static let minute: Int64 = 60 * second
    /// One hour.
    package static let hour: Int64 = 60 * minute
    /// A day of 24 hours, which every day is in UTC.
    package static let day: Int64 = 24 * hour
}

/// An ISO 8601 duration: years and months of the calendar, and an exact rest.
package struct SimulatedCalendarDuration: Sendable, Hashable {
    /// Years and months together, in months.
    package let months: Int
    /// Weeks, days and times together, in milliseconds.
    package let milliseconds: Int64

    /// Reads a duration such as `P1M`, `P90D`, `P2W` or `P1DT12H`; nil for anything else.
    package init?(iso8601 text: String) {
        guard text.first == "P", text.count > 1 else { return nil }
        var months = 0
        var milliseconds: Int64 = 0
        var isTime = false
        var digits = ""
        for character in text.dropFirst() {
            if character == "T" {
                isTime = true
            } else if character.isASCII, character.isNumber {
                digits.append(character)
            } else {
                guard let amount = Int(digits), amount <= 10_000 else { return nil }
                digits = ""
                switch (character, isTime) {
                case ("Y", false): months += 12 * amount
                case ("M", false): months += amount
                case ("W", false): milliseconds += Int64(amount) * 7 * Span.day
                case ("D", false): milliseconds += Int64(amount) * Span.day
                case ("H", true): milliseconds += Int64(amount) * Span.hour
                case ("M", true): milliseconds += Int64(amount) * Span.minute
                case ("S", true): milliseconds += Int64(amount) * Span.second
                default: return nil
                }
            }
        }
        guard digits.isEmpty else { return nil }
        self.months = months
        self.milliseconds = milliseconds
    }
}

/// The simulated store's calendar: Gregorian, UTC, instants as milliseconds since 1970.
package enum SimulatedCalendar {
    /// The instant of a date and time in UTC.
    package static func instant(
        _ year: Int, _ month: Int, _ day: Int, _ hour: Int = 0, _ minute: Int = 0, _ second: Int = 0
    ) -> Int64 {
        let time = Int64(hour) * Span.hour + Int64(minute) * Span.minute + Int64(second) * Span.second
        return daysSince1970(year: year, month: month, day: day) * Span.day + time
    }

    /// The instant `duration` later: months first, keeping the day or falling back to the month's last, then the rest.
    package static func adding(_ duration: SimulatedCalendarDuration, to instant: Int64) -> Int64 {
        let timeOfDay = ((instant % Span.day) + Span.day) % Span.day
        let date = civilDate(daysSince1970: (instant - timeOfDay) / Span.day)
        let monthIndex = date.year * 12 + (date.month - 1) + duration.months
        let year = monthIndex / 12
        let month = monthIndex % 12 + 1
        let day = min(date.day, daysIn(month: month, year: year))
        return daysSince1970(year: year, month: month, day: day) * Span.day + timeOfDay + duration.milliseconds
    }

    /// The month an instant lies in, such as `2026-03`.
    package static func month(of instant: Int64) -> String {
        let timeOfDay = ((instant % Span.day) + Span.day) % Span.day
        let date = civilDate(daysSince1970: (instant - timeOfDay) / Span.day)
        return "\(date.year)-\(date.month < 10 ? "0" : "")\(date.month)"
    }

    private static func isLeap(_ year: Int) -> Bool {
        year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    }

    private static func daysIn(month: Int, year: Int) -> Int {
        switch month {
        case 2: isLeap(year) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Counts the days year by year and month by month: slow, plain, and good from 1970 on.
    private static func daysSince1970(year: Int, month: Int, day: Int) -> Int64 {
        var days = 0
        for past in stride(from: 1970, to: year, by: 1) { days += isLeap(past) ? 366 : 365 }
        for past in stride(from: 1, to: month, by: 1) { days += daysIn(month: past, year: year) }
        return Int64(days + day - 1)
    }

    private static func civilDate(daysSince1970 days: Int64) -> (year: Int, month: Int, day: Int) {
        var rest = Int(days)
        var year = 1970
        while rest >= (isLeap(year) ? 366 : 365) {
            rest -= isLeap(year) ? 366 : 365
            year += 1
        }
        var month = 1
        while rest >= daysIn(month: month, year: year) {
            rest -= daysIn(month: month, year: year)
            month += 1
        }
        return (year, month, rest + 1)
    }
}
