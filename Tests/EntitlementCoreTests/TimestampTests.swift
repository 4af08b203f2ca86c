import Foundation
import SeededRandom
import Testing

@testable import EntitlementCore

@Suite("Timestamps")
struct TimestampTests {
    @Test("fractional milliseconds are floored, also before 1970")
    func floors() {
        let table: [(Double, Int64)] = [
            (0, 0), (0.999, 0), (1.5, 1), (-0.5, -1), (-1, -1), (-1.0001, -2), (1_767_225_600_000.9, 1_767_225_600_000),
        ]
        for (value, expected) in table { #expect(Timestamp(milliseconds: value)?.milliseconds == expected) }
        #expect(Timestamp(milliseconds: Double.nan) == nil)
    }

    @Test("what lies outside the years 1 to 9999 is clamped")
    func clamps() {
        for value in [Int64.min, -62_135_596_800_001] { #expect(Timestamp(milliseconds: value) == .earliest) }
        for value in [Int64.max, 253_402_300_800_000] { #expect(Timestamp(milliseconds: value) == .latest) }
        for value in [-Double.infinity, -1e300, -9.3e18] { #expect(Timestamp(milliseconds: value) == .earliest) }
        for value in [Double.infinity, 1e300, 9.3e18, 9.2e18] { #expect(Timestamp(milliseconds: value) == .latest) }
        #expect(Timestamp.earliest.description == "0001-01-01T00:00:00.000Z")
        #expect(Timestamp.latest.description == "9999-12-31T23:59:59.999Z")
        #expect(Timestamp.endless > .latest)
    }

    @Test("adding never overflows, and endless stays endless")
    func adding() {
        #expect(day(0).adding(milliseconds: 86_400_000) == day(1))
        #expect(day(0).adding(milliseconds: .max) == .latest)
        #expect(day(0).adding(milliseconds: .min) == .earliest)
        #expect(Timestamp.latest.adding(milliseconds: 1) == .latest)
        #expect(Timestamp.earliest.adding(milliseconds: .min) == .earliest)
        for delta in [Int64.min, -1, 0, 1, .max] { #expect(Timestamp.endless.adding(milliseconds: delta) == .endless) }
    }

    @Test("dates and days convert both ways, as Foundation's calendar counts them")
    func civilDates() throws {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(secondsFromGMT: 0))
        var random = SplitMix64(seed: 1)
        for _ in 0..<3_000 {
            // From 1583 on Foundation's calendar is Gregorian too.
            let days = Int64.random(in: -141_000...2_932_000, using: &random)
            let date = CivilDate(daysSinceEpoch: days)
            #expect(date.daysSinceEpoch == days)
            let parts = calendar.dateComponents(
                [.year, .month, .day], from: Date(timeIntervalSince1970: Double(days) * 86_400))
            #expect([date.year, date.month, date.day] == [parts.year, parts.month, parts.day].map { Int64($0 ?? 0) })
        }
        for days in [Int64(-719_162), -719_468, -719_469, -1_000_000, -146_097, 0, 59, 60, 11_016, 11_017] {
            #expect(CivilDate(daysSinceEpoch: days).daysSinceEpoch == days)
        }
    }

    @Test("the day of an instant before 1970 is floored too")
    func daysBeforeEpoch() {
        for (milliseconds, days, ofDay) in [
            (-1, -1, 86_399_999), (-86_400_000, -1, 0), (-86_400_001, -2, 86_399_999), (0, 0, 0),
            (86_399_999, 0, 86_399_999),
        ] {
            let instant = Timestamp(milliseconds: Int64(milliseconds))
            #expect(instant.daysSinceEpoch == Int64(days))
            #expect(instant.millisecondOfDay == Int64(ofDay))
        }
    }
}

@Suite("RFC 3339")
struct RFC3339Tests {
    @Test(
        "what it reads",
        arguments: [
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("2026-11-20T19:00:00.000Z", "2026-11-20T19:00:00.000Z"),
            ("2026-11-20t19:00:00z", "2026-11-20T19:00:00.000Z"),
            ("2026-11-20 19:00:00Z", "2026-11-20T19:00:00.000Z"),
            ("2026-11-20T19:00:00+00:00", "2026-11-20T19:00:00.000Z"),
            ("2026-11-20T19:00:00-00:00", "2026-11-20T19:00:00.000Z"),
            ("2026-11-20T19:00:00+05:30", "2026-11-20T13:30:00.000Z"),
            ("2026-11-20T19:00:00-08:00", "2026-11-21T03:00:00.000Z"),
            ("2026-01-01T00:00:00+00:01", "2025-12-31T23:59:00.000Z"),
            ("2026-11-20T19:00:00.5Z", "2026-11-20T19:00:00.500Z"),
            ("2026-11-20T19:00:00.05Z", "2026-11-20T19:00:00.050Z"),
            ("2026-11-20T19:00:00.1239Z", "2026-11-20T19:00:00.123Z"),
            ("2026-11-20T19:00:00.999999999999999999999999Z", "2026-11-20T19:00:00.999Z"),
            ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
            ("2024-02-29T12:00:00Z", "2024-02-29T12:00:00.000Z"),
            ("2000-02-29T12:00:00Z", "2000-02-29T12:00:00.000Z"),
            ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"),
            ("2017-01-01T00:59:60+01:00", "2017-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.9999Z", "9999-12-31T23:59:59.999Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
            ("0000-12-31T23:00:00-01:00", "0001-01-01T00:00:00.000Z"),
        ])
    func reads(text: String, expected: String) {
        #expect(Timestamp(rfc3339: text)?.description == expected)
    }

    @Test(
        "what it refuses",
        arguments: [
            "", "Z", "2026", "2026-11-20", "2026-11-20T19:00:00", "2026-11-20T19:00Z", "2026-11-20T19:00:00.Z",
            "2026-11-20T19:00:00,5Z", "2026-11-20T19:00:00ZZ", " 2026-11-20T19:00:00Z", "2026-11-20T19:00:00Z ",
            "2026-13-20T19:00:00Z", "2026-00-20T19:00:00Z", "2026-11-00T19:00:00Z", "2026-11-31T19:00:00Z",
            "2026-02-29T19:00:00Z", "1900-02-29T19:00:00Z", "2100-02-29T19:00:00Z", "2026-11-20T24:00:00Z",
            "2026-11-20T19:60:00Z", "2026-11-20T19:00:61Z", "2026-11-20T19:00:00+24:00", "2026-11-20T19:00:00+05:60",
            "2026-11-20T19:00:00+0530", "2026-11-20T19:00:00+5:30", "2026-11-20T19:00:00+05", "26-11-20T19:00:00Z",
            "12026-11-20T19:00:00Z", "-2026-11-20T19:00:00Z", "2026/11/20T19:00:00Z", "2026-1-2T19:00:00Z",
            "2026-11-20T1９:00:00Z", "+026-11-20T19:00:00Z", "2026-11-20T19:00:00.5", "2026-11-20_19:00:00Z",
            "9999-12-31T23:59:60Z", "9999-12-31T23:59:59-00:01", "0001-01-01T00:00:00+00:01", "0000-06-01T00:00:00Z",
            "2026-11-20T19:00:00\u{0}Z", "endless", "\u{feff}2026-11-20T19:00:00Z",
        ])
    func refuses(text: String) {
        #expect(Timestamp(rfc3339: text) == nil)
    }

    @Test("every instant is written as it is read, and sorts as text as it does in time")
    func roundTrip() {
        var random = SplitMix64(seed: 2)
        let range = Timestamp.earliest.milliseconds...Timestamp.latest.milliseconds
        let instants = (0..<2_000).map { _ in Timestamp(milliseconds: Int64.random(in: range, using: &random)) }
        for instant in instants + [.earliest, .latest] {
            #expect(Timestamp(rfc3339: instant.description) == instant)
        }
        #expect(instants.sorted().map(\.description) == instants.map(\.description).sorted())
    }

    @Test("in JSON it is its text, and anything else is an error")
    func json() throws {
        let data = try JSONEncoder().encode([day(0)])
        #expect(String(decoding: data, as: UTF8.self) == #"["2026-01-01T00:00:00.000Z"]"#)
        #expect(try JSONDecoder().decode([Timestamp].self, from: data) == [day(0)])
        for text in [#"["today"]"#, "[1767225600000]", "[null]"] {
            #expect(throws: DecodingError.self) { try JSONDecoder().decode([Timestamp].self, from: Data(text.utf8)) }
        }
    }
}

@Suite("Calendar durations")
struct CalendarDurationTests {
    @Test(
        "they are added by the calendar, in UTC",
        arguments: [
            ("2026-01-31T10:00:00.000Z", "P1M", "2026-02-28T10:00:00.000Z"),
            ("2024-01-31T10:00:00.000Z", "P1M", "2024-02-29T10:00:00.000Z"),
            ("2024-02-29T10:00:00.000Z", "P1Y", "2025-02-28T10:00:00.000Z"),
            ("2024-02-29T10:00:00.000Z", "P4Y", "2028-02-29T10:00:00.000Z"),
            ("2096-02-29T10:00:00.000Z", "P4Y", "2100-02-28T10:00:00.000Z"),
            ("2026-08-31T00:00:00.000Z", "P6M", "2027-02-28T00:00:00.000Z"),
            ("2026-12-15T00:00:00.000Z", "P1M", "2027-01-15T00:00:00.000Z"),
            ("2026-01-30T00:00:00.000Z", "P1M1D", "2026-03-01T00:00:00.000Z"),
            ("2026-01-01T00:00:00.000Z", "P90D", "2026-04-01T00:00:00.000Z"),
            ("2024-02-28T12:34:56.789Z", "P1D", "2024-02-29T12:34:56.789Z"),
            ("2026-01-01T00:00:00.000Z", "P2W", "2026-01-15T00:00:00.000Z"),
            ("2026-01-01T00:00:00.000Z", "P1Y2M3W4D", "2027-03-26T00:00:00.000Z"),
            ("2026-01-01T00:00:00.000Z", "PT36H", "2026-01-02T12:00:00.000Z"),
            ("2026-01-01T00:00:00.000Z", "PT1H30M5S", "2026-01-01T01:30:05.000Z"),
            ("2026-01-01T00:00:00.000Z", "P1MT1M", "2026-02-01T00:01:00.000Z"),
            ("1969-12-31T23:59:59.999Z", "P1M", "1970-01-31T23:59:59.999Z"),
            ("0001-01-31T00:00:00.000Z", "P1M", "0001-02-28T00:00:00.000Z"),
            ("2026-01-01T00:00:00.000Z", "P007D", "2026-01-08T00:00:00.000Z"),
            ("2026-01-01T00:00:00.000Z", "P0Y1D", "2026-01-02T00:00:00.000Z"),
            ("2026-01-01T00:00:00.000Z", "P999999Y999999M999999W999999DT999999H", "9999-12-31T23:59:59.999Z"),
            ("9999-12-31T23:59:59.999Z", "PT1S", "9999-12-31T23:59:59.999Z"),
        ])
    func adds(start: String, text: String, end: String) throws {
        let duration = try #require(CalendarDuration(iso8601: text))
        #expect(duration.text == text)
        #expect(try #require(Timestamp(rfc3339: start)).adding(duration).description == end)
    }

    @Test(
        "anything else is refused",
        arguments: [
            "", "P", "PT", "P1", "1D", "P1DT", "PD", "P-1D", "-P1D", "+P1D", "P1.5D", "P1,5D", "p1d", "P1d", "P1D ",
            " P1D", "P1M1Y", "P1D1M", "P1D1D", "P1H", "PT1D", "PT1M1H", "PT1ST1S", "P0D", "P0Y0M0DT0S", "P1234567D",
            "P１D", "P1D\u{0}", "PP1D", "P 1D", "P1W1Y",
        ])
    func refuses(text: String) {
        #expect(CalendarDuration(iso8601: text) == nil)
    }

    @Test("added to what does not end, it does not end")
    func endless() throws {
        let duration = try #require(CalendarDuration(iso8601: "P999999Y999999D"))
        #expect(Timestamp.endless.adding(duration) == .endless)
    }

    @Test("years and months land where Foundation's calendar puts them")
    func foundation() throws {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(secondsFromGMT: 0))
        var random = SplitMix64(seed: 3)
        for _ in 0..<1_000 {
            let start = Timestamp(milliseconds: Int64.random(in: 0...4_102_444_800_000, using: &random))
            let months = Int.random(in: 1...40, using: &random)
            let duration = try #require(CalendarDuration(iso8601: "P\(months)M"))
            // On whole seconds, which a Date keeps exactly.
            let seconds = start.milliseconds / 1000
            let expected = calendar.date(
                byAdding: .month, value: months, to: Date(timeIntervalSince1970: Double(seconds)))
            let end = Timestamp(milliseconds: seconds * 1000).adding(duration)
            #expect(
                Double(end.milliseconds) == (expected?.timeIntervalSince1970 ?? 0) * 1000, "\(start) + \(months) months"
            )
        }
    }
}
