/// What made a customer's answer another one.
package enum AnswerCause: Hashable, Sendable {
    /// The event at the position up to which the log is believed.
    case event
    /// A catalog, which was written at that position.
    case catalog
    /// Time alone, such as the end of a period.
    case time
}

/// A change of what one customer is answered in one environment.
package struct AnswerChange: Hashable, Sendable {
    package let cause: AnswerCause
    /// Up to where the log is believed after it.
    package let position: Int64
    /// When the answer became another one.
    package let instant: Timestamp
    /// As it is sent.
    package let before: [UInt8]
    package let after: [UInt8]
}

/// What one customer is answered by what is known at a position, as it is sent; what is sent alike is no change.
package protocol ShownAnswers {
    /// The answer at an instant, and until when it holds: from the instant on, before `until`.
    func shown(at instant: Timestamp) throws -> (answers: [UInt8], until: Timestamp)
}

/// Goes through what one customer is answered, from one moment to the next, and tells each change.
///
/// A moment is a position of the log and an instant: what is known, and when it is asked. The position only goes forward, and
/// so does the instant, unless a clock was ahead; each change begins with what the one before it ended with. As the answer to a
/// moment never changes, the same log gives the same changes to whoever goes through it by the same clock.
package struct AnswerWalk: Sendable {
    package private(set) var position: Int64
    package private(set) var instant: Timestamp
    /// The first instant after this moment at which time alone may change the answer; `endless` where it cannot.
    package private(set) var until: Timestamp
    private var shown: [UInt8]

    /// Begins at a moment.
    ///
    /// - Parameters:
    ///   - known: what is known at the position.
    ///   - told: what was told before; `nil`: what is known.
    package init(
        _ known: some ShownAnswers, knownAt position: Int64, at instant: Timestamp, told: [UInt8]? = nil
    ) throws {
        let (answers, until) = try known.shown(at: instant)
        (self.position, self.instant, self.until) = (position, instant, until)
        shown = told ?? answers
    }

    /// Lets time pass, up to and with an instant, while nothing is learned that bears on the customer.
    ///
    /// - Parameters:
    ///   - known: what is known at the position.
    ///   - position: this one, or a later one up to which nothing bears on the customer.
    package mutating func pass(
        until end: Timestamp, _ known: some ShownAnswers, knownAt position: Int64
    ) throws -> [AnswerChange] {
        self.position = position
        var changes: [AnswerChange] = []
        while until <= end {
            if let change = try look(known, position, at: until, .time) { changes.append(change) }
        }
        instant = max(instant, end)
        return changes
    }

    /// Goes back to an earlier instant, where a clock that was ahead has brought the walk too far, and tells what is answered then
    /// if something else was told.
    ///
    /// - Parameter known: what is known at the position.
    package mutating func goBack(
        to earlier: Timestamp, _ known: some ShownAnswers, knownAt position: Int64
    ) throws -> AnswerChange? {
        guard earlier < instant else { return nil }
        return try look(known, position, at: earlier, .time)
    }

    /// Learns what is known at a later position, at this instant.
    package mutating func learn(
        _ known: some ShownAnswers, knownAt position: Int64, _ cause: AnswerCause
    ) throws -> AnswerChange? {
        try look(known, position, at: instant, cause)
    }

    private mutating func look(
        _ known: some ShownAnswers, _ position: Int64, at instant: Timestamp, _ cause: AnswerCause
    ) throws -> AnswerChange? {
        let (answers, until) = try known.shown(at: instant)
        let before = shown
        (self.position, self.instant, self.until, shown) = (position, instant, until, answers)
        guard shown != before else { return nil }
        return AnswerChange(cause: cause, position: position, instant: instant, before: before, after: shown)
    }
}
