import SeededRandom
import Testing

@testable import EntitlementCore

/// One subscription of one item, whose lines follow each other or overlap, told as plainly as the contract tells it.
private struct PlainLife {
    struct Line {
        let invoice: Int
        let start: Timestamp
        let end: Timestamp
        let paidAt: Timestamp
    }

    struct Word {
        let created: Timestamp
        let status: WebSubscriptionStatus
        let periodEnd: Timestamp
        let isSetToEnd: Bool
        let isPaused: Bool
    }

    var lines: [Line] = []
    var words: [Word] = []
    var endedAt: Timestamp?
    /// From when on what an invoice paid for is taken back.
    var withdrawn: [Int: Timestamp] = [:]
    var policy = AccessPolicy()
    var told: [WebTold] = []

    private static let hour: Int64 = 3_600_000
    private static let dayLength: Int64 = 24 * hour

    /// What holds at an instant: one rule after the other, without any list of periods.
    func state(at t: Timestamp) -> EntitlementState? {
        let real = held.filter { line in endedAt.map { line.start < $0 } ?? true }
        func opening(_ index: Int) -> Timestamp {
            index == 0 ? real[0].start : max(real[index].start, real[index].paidAt)
        }
        guard let index = real.indices.last(where: { opening($0) <= t }) else { return nil }
        let line = real[index]
        if let date = withdrawn[line.invoice], t >= date { return .revoked }
        if let endedAt, endedAt <= t { return .expired }
        if t < line.end { return .active }
        let since = t.milliseconds - line.end.milliseconds
        if since >= 60 * Self.dayLength { return .expired }
        let later = words.filter { $0.created >= line.end }
        guard let first = later.first else {
            guard let last = words.last(where: { $0.created < line.end }) else { return .expired }
            let goesOn = [.active, .trialing, .pastDue].contains(last.status) && !last.isSetToEnd && !last.isPaused
            return goesOn && since < Self.hour ? .active : .expired
        }
        let speaking = later.last { $0.created <= t } ?? first
        if speaking.isPaused { return .expired }
        switch speaking.status {
        case .active, .trialing:
            if speaking.periodEnd <= line.end {
                return !speaking.isSetToEnd && since < Self.hour ? .active : .expired
            }
            return since < 72 * Self.hour && t < speaking.periodEnd ? .active : .inBillingRetry
        case .pastDue: return since < policy.webGraceDays * Self.dayLength ? .inGracePeriod : .inBillingRetry
        case .unpaid: return .inBillingRetry
        case .paused, .canceled, .incomplete, .incompleteExpired: return .expired
        }
    }

    /// Where each line holds: it begins where those before it have ended, by themselves or by being taken back.
    private var held: [Line] {
        var held: [Line] = []
        for line in lines.sorted(by: { $0.start < $1.start }) {
            let ends = held.map { min($0.end, max($0.start, withdrawn[$0.invoice] ?? .endless)) }
            let start = max(line.start, ends.max() ?? .earliest)
            guard start < line.end else { continue }
            held.append(Line(invoice: line.invoice, start: start, end: line.end, paidAt: line.paidAt))
        }
        return held
    }

    init(_ random: inout SplitMix64) {
        func instant(_ hours: Int64) -> Timestamp { day(0).adding(milliseconds: hours * Self.hour) }
        func days(_ instant: Timestamp) -> Double {
            Double(instant.milliseconds - day(0).milliseconds) / Double(Self.dayLength)
        }
        policy.webGraceDays = random.pick([0, 3, 7])
        var cursor: Int64 = 0
        for invoice in 0..<Int(random.next() % 5) + 1 {
            let length = random.pick([24, 7 * 24, 30 * 24] as [Int64])
            // Some begin while the one before runs, each at an instant of its own.
            let early = min(cursor, 1 + Int64(random.next() % 500))
            let isEarly = random.once(in: 4) && !lines.contains { $0.start == instant(cursor - early) }
            let start = isEarly ? cursor - early : cursor + (random.once(in: 4) ? Int64(random.next() % 200) : 0)
            let paid = start + random.pick([0, 1, 1, 1, 30, 24 * 5, 24 * 9])
            let line = Line(
                invoice: invoice, start: instant(start), end: instant(start + length), paidAt: instant(paid))
            lines.append(line)
            told.append(
                paidLine(
                    "\(invoice)", from: days(line.start), to: days(line.end), at: days(line.paidAt), by: "pi_\(invoice)"
                ))
            cursor = max(cursor, start + length)
            if random.once(in: 6) {
                let date = instant(start + Int64(random.next() % UInt64(length + 200)))
                withdrawn[invoice] = date
                told.append(
                    random.once(in: 2)
                        ? refunded("\(invoice)", at: days(date), payment: "pi_\(invoice)")
                        : disputed("\(invoice)", at: days(date), payment: "pi_\(invoice)"))
            }
        }
        let hours = Set((0..<Int(random.next() % 9)).map { _ in Int64(random.next() % UInt64(cursor + 1200)) }).sorted()
        for hour in hours {
            let word = Word(
                created: instant(hour),
                status: random.pick([.active, .active, .pastDue, .unpaid, .paused, .canceled, .trialing, .incomplete]),
                periodEnd: instant(hour + Int64(random.next() % 900) - 100), isSetToEnd: random.once(in: 6),
                isPaused: random.once(in: 9))
            words.append(word)
            told.append(
                says(
                    word.status.rawValue, at: days(word.created), until: days(word.periodEnd),
                    cancelsAtEnd: word.isSetToEnd, pause: word.isPaused ? "void" : nil))
        }
        if random.once(in: 4) {
            let end = instant(Int64(random.next() % UInt64(cursor + 600)) * 2 + 1)
            guard !words.contains(where: { $0.created >= end }) else { return }
            endedAt = end
            words.append(Word(created: end, status: .canceled, periodEnd: end, isSetToEnd: false, isPaused: false))
            told.append(says("canceled", at: days(end), until: days(end), ended: days(end)))
        }
    }
}

@Suite("Web checkout: held against the contract, rule by rule", .timeLimit(.minutes(5)))
struct WebOracleTests {
    @Test(
        "every instant reads as the rules say, also a millisecond before and after each boundary",
        arguments: 0..<30 as Range<UInt64>)
    func plain(block: UInt64) {
        for seed in block * 20..<(block + 1) * 20 {
            var random = SplitMix64(seed: seed)
            let life = PlainLife(&random)
            let given = WebGiven(policy: life.policy).with { $0.told = life.told.shuffled(using: &random) }
            let readings = given.readings()
            #expect(
                zip(readings, readings.dropFirst()).allSatisfy { $0.end == $1.start && $0.start < $0.end },
                "seed \(seed): in order, disjoint, without gaps")
            let boundaries =
                readings.map(\.start) + life.words.map(\.created)
                + life.lines.flatMap { [$0.start, $0.end, $0.paidAt] }
            let instants =
                boundaries.flatMap { boundary in [-1, 0, 1].map { boundary.adding(milliseconds: $0) } }
                + (0..<30).map { _ in day(Double(random.next() % 2000) / 10) }
            for instant in instants {
                let read = readings.last { $0.start <= instant }?.state
                let expected = life.state(at: instant)
                #expect(read == expected, "seed \(seed) at \(instant)")
                if read != expected { return }
            }
        }
    }
}
