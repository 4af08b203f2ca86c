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
    /// `nil` for anything else.
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
        self.init(milliseconds: days * Self.millisecondsPerDay + ofDay)
    }
}

/// Reads fixed-width numbers from ASCII text; shared by the two formats the core must parse without Foundation.
struct DigitScanner {
    private let bytes: [UInt8]
    private var index = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { index == bytes.count }

    mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard index < bytes.count, UInt32(bytes[index]) == character.value else { return false }
        index += 1
        return true
    }

    /// Exactly `digits` decimal digits.
    mutating func number(digits: Int) -> Int64? {
        guard index + digits <= bytes.count else { return nil }
        var value: Int64 = 0
        for offset in 0..<digits {
            let byte = bytes[index + offset]
            guard (48...57).contains(byte) else { return nil }
            value = value * 10 + Int64(byte - 48)
        }
        index += digits
        return value
    }

    /// One to six decimal digits.
    mutating func number() -> Int64? {
        let start = index
        while index < bytes.count, (48...57).contains(bytes[index]) { index += 1 }
        let digits = index - start
        guard (1...6).contains(digits) else { return nil }
        index = start
        return number(digits: digits)
    }

    mutating func millisecondFraction() -> Int64? {
        var value: Int64 = 0
        var digits = 0
        while index < bytes.count, (48...57).contains(bytes[index]) {
            if digits < 3 { value = value * 10 + Int64(bytes[index] - 48) }
            digits += 1
            index += 1
        }
        guard digits > 0 else { return nil }
        for _ in stride(from: digits, to: 3, by: 1) { value *= 10 }
        return value
    }

    mutating func offsetMinutes() -> Int64? {
        if take("Z") || take("z") { return 0 }
        let sign: Int64 = take("+") ? 1 : (take("-") ? -1 : 0)
        guard sign != 0, let hours = number(digits: 2), take(":"), let minutes = number(digits: 2),
            hours < 24, minutes < 60
        else { return nil }
        return sign * (hours * 60 + minutes)
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
