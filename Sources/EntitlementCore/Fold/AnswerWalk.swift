/// What changed a customer's answer.
package enum AnswerCause: Hashable, Sendable {
    /// The event at the position up to which the log is believed.
    case event
    /// A catalog that was written at that position.
    case catalog
    /// Time alone, such as the end of a period.
    case time
}

/// A change of one customer's answer in one environment.
package struct AnswerChange: Hashable, Sendable {
    package let cause: AnswerCause
    /// The position up to which the log was believed for the new answer.
    package let position: Int64
    /// When the answer changed.
    package let instant: Timestamp
    /// The answer before the change, in the bytes that are sent.
    package let before: [UInt8]
    package let after: [UInt8]
}

/// One customer's answers by what is known at a position, in the bytes that are sent; equal bytes are no change.
package protocol ShownAnswers {
    /// The answer at an instant, and until when it holds: from the instant on, before `until`.
    func shown(at instant: Timestamp) throws -> (answers: [UInt8], until: Timestamp)
}

/// Follows one customer's answer from moment to moment and returns each change.
///
/// A moment is a position of the log (what is known) and an instant (when it is asked). The position only goes forward,
/// and so does the instant, unless a clock was ahead. Each change begins with the answer that the change before it
/// ended with. The answer at a moment never changes, so two walks of the same log by the same clock find the same
/// changes.
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
    ///   - told: the answer that was told before; `nil`: the one at this moment.
    package init(
        _ known: some ShownAnswers, knownAt position: Int64, at instant: Timestamp, told: [UInt8]? = nil
    ) throws {
        let (answers, until) = try known.shown(at: instant)
        (self.position, self.instant, self.until) = (position, instant, until)
        shown = told ?? answers
    }

    /// Lets time pass up to and including an instant, while no event about the customer comes.
    ///
    /// - Parameters:
    ///   - known: what is known at the position.
    ///   - position: the walk's own, or a later one with no event about the customer in between.
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

    /// Goes back to an earlier instant, where a clock that was ahead had brought the walk too far; returns the change
    /// if the answer there is another one than was told last.
    ///
    /// - Parameter known: what is known at the position.
    package mutating func goBack(
        to earlier: Timestamp, _ known: some ShownAnswers, knownAt position: Int64
    ) throws -> AnswerChange? {
        guard earlier < instant else { return nil }
        return try look(known, position, at: earlier, .time)
    }

    /// Goes on to a later position at the same instant.
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
