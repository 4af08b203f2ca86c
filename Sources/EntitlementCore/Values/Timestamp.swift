/// An instant in milliseconds since 1970-01-01T00:00:00Z, as Apple signs them.
///
/// Values outside the years 1 to 9999 are clamped to that range, so that every instant has an RFC 3339 form and
/// arithmetic never overflows.
package struct Timestamp: Hashable, Comparable, Sendable {
    package let milliseconds: Int64

    /// 0001-01-01T00:00:00.000Z.
    package static let earliest = Timestamp(unchecked: -62_135_596_800_000)
    /// 9999-12-31T23:59:59.999Z.
    package static let latest = Timestamp(unchecked: 253_402_300_799_999)
    /// The end of an interval that has none; later than every instant, and never printed.
    package static let endless = Timestamp(unchecked: .max)

    package init(milliseconds: Int64) {
        self.milliseconds = min(max(milliseconds, Self.earliest.milliseconds), Self.latest.milliseconds)
    }

    /// Floors a possibly fractional number of milliseconds; `nil` for what is not a number.
    package init?(milliseconds value: Double) {
        guard !value.isNaN else { return nil }
        let floored = value.rounded(.down)
        if floored <= -9.2e18 {
            self = .earliest
        } else if floored >= 9.2e18 {
            self = .latest
        } else {
            self.init(milliseconds: Int64(floored))
        }
    }

    private init(unchecked milliseconds: Int64) { self.milliseconds = milliseconds }

    package static func < (left: Timestamp, right: Timestamp) -> Bool { left.milliseconds < right.milliseconds }

    /// This instant moved by a number of milliseconds, within the representable range; `endless` stays so.
    package func adding(milliseconds delta: Int64) -> Timestamp {
        if self == .endless { return self }
        let (sum, overflow) = milliseconds.addingReportingOverflow(delta)
        if overflow { return delta > 0 ? .latest : .earliest }
        return Timestamp(milliseconds: sum)
    }

    package static let millisecondsPerDay: Int64 = 86_400_000
}

/// A date of the proleptic Gregorian calendar, in UTC.
///
/// The two conversions are Howard Hinnant's `days_from_civil` and `civil_from_days`; the core may not import
/// Foundation, whose calendar would otherwise serve.
struct CivilDate: Hashable, Sendable {
    var year: Int64
    var month: Int64
    var day: Int64

    init(year: Int64, month: Int64, day: Int64) {
        self.year = year
        self.month = month
        self.day = day
    }

    init(daysSinceEpoch: Int64) {
        let z = daysSinceEpoch + 719_468
        let era = (z >= 0 ? z : z - 146_096) / 146_097
        let dayOfEra = z - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    var daysSinceEpoch: Int64 {
        let y = month <= 2 ? year - 1 : year
        let era = (y >= 0 ? y : y - 399) / 400
        let yearOfEra = y - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    static func daysIn(month: Int64, year: Int64) -> Int64 {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Moves by whole months and keeps the day of the month, or takes the month's last where it has fewer days.
    func adding(months: Int64) -> CivilDate {
        let total = year * 12 + (month - 1) + months
        let newYear = total >= 0 ? total / 12 : (total - 11) / 12
        let newMonth = total - newYear * 12 + 1
        return CivilDate(
            year: newYear, month: newMonth, day: min(day, Self.daysIn(month: newMonth, year: newYear)))
    }
}

extension Timestamp {
    var daysSinceEpoch: Int64 {
        let day = Self.millisecondsPerDay
        return milliseconds >= 0 ? milliseconds / day : (milliseconds - (day - 1)) / day
    }

    var millisecondOfDay: Int64 { milliseconds - daysSinceEpoch * Self.millisecondsPerDay }
}
