import Foundation

/// When a server says that it answered, by its own clock, to the second.
package enum HTTPDate {
    /// Milliseconds since 1970; `nil` for what is no such date.
    ///
    /// Source: RFC 9110, "IMF-fixdate".
    package static func milliseconds(_ text: String) -> Int64? {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss zzz"
        return formatter.date(from: text).map { Int64($0.timeIntervalSince1970 * 1000) }
    }
}
