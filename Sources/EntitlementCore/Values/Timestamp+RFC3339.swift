extension Timestamp: CustomStringConvertible {
    /// RFC 3339 in UTC with milliseconds: `2026-11-20T19:00:00.000Z`.
    package var description: String {
        if self == .endless { return "endless" }
        let date = CivilDate(daysSinceEpoch: daysSinceEpoch)
        let ofDay = millisecondOfDay
        var text = [UInt8]()
        text.reserveCapacity(24)
        func append(_ value: Int64, digits: Int) {
            var divisor: Int64 = 1
            for _ in 1..<digits { divisor *= 10 }
            while divisor > 0 {
                text.append(UInt8(48 + (value / divisor) % 10))
                divisor /= 10
            }
        }
        append(date.year, digits: 4)
        text.append(UInt8(ascii: "-"))
        append(date.month, digits: 2)
        text.append(UInt8(ascii: "-"))
        append(date.day, digits: 2)
        text.append(UInt8(ascii: "T"))
        append(ofDay / 3_600_000, digits: 2)
        text.append(UInt8(ascii: ":"))
        append(ofDay / 60_000 % 60, digits: 2)
        text.append(UInt8(ascii: ":"))
        append(ofDay / 1000 % 60, digits: 2)
        text.append(UInt8(ascii: "."))
        append(ofDay % 1000, digits: 3)
        text.append(UInt8(ascii: "Z"))
        return String(decoding: text, as: UTF8.self)
    }

    /// Reads an RFC 3339 date and time with any offset; a fraction is floored to milliseconds, a leap second taken as
    /// the second after it.
    ///
    /// `nil` for anything else, and for what lies outside the years 1 to 9999 in UTC.
    package init?(rfc3339 text: String) {
        var scanner = DigitScanner(Array(text.utf8))
        guard let year = scanner.number(digits: 4), scanner.take("-"),
            let month = scanner.number(digits: 2), scanner.take("-"),
            let day = scanner.number(digits: 2),
            scanner.take("T") || scanner.take("t") || scanner.take(" "),
            let hour = scanner.number(digits: 2), scanner.take(":"),
            let minute = scanner.number(digits: 2), scanner.take(":"),
            let second = scanner.number(digits: 2)
        else { return nil }
        guard (1...12).contains(month), day >= 1, day <= CivilDate.daysIn(month: month, year: year),
            hour < 24, minute < 60, second <= 60
        else { return nil }
        var fraction: Int64 = 0
        if scanner.take(".") {
            guard let value = scanner.millisecondFraction() else { return nil }
            fraction = value
        }
        guard let offset = scanner.offsetMinutes(), scanner.isAtEnd else { return nil }
        let days = CivilDate(year: year, month: month, day: day).daysSinceEpoch
        let ofDay = ((hour * 60 + minute - offset) * 60 + second) * 1000 + fraction
        let milliseconds = days * Self.millisecondsPerDay + ofDay
        self.init(milliseconds: milliseconds)
        // Whoever wrote the text would be answered about an instant that they did not name.
        guard self.milliseconds == milliseconds else { return nil }
    }
}

extension Timestamp: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let value = Timestamp(rfc3339: try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not an RFC 3339 timestamp")
        }
        self = value
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
