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
