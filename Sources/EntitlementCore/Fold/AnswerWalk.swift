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

/// Goes through what one customer is answered, from one moment to the next, and tells each change.
///
/// A moment is a position of the log and an instant: what is known, and when it is asked. Both only go forward, so each
/// change begins with what the one before it ended with; and as the answer to a moment never changes, the same log gives the
/// same changes to whoever goes through it.
package struct AnswerWalk: Sendable {
    package private(set) var position: Int64
    package private(set) var instant: Timestamp
    /// The first instant after this moment at which time alone may change the answer; `endless` where it cannot.
    package private(set) var until: Timestamp
    private var shown: [UInt8]
    private let show: @Sendable ([EntitlementAnswer]) throws -> [UInt8]

    /// Begins at a moment.
    ///
    /// - Parameters:
    ///   - facts: what is known at the position.
    ///   - isTold: whether the answer is what was told before; else nothing was.
    ///   - show: the answer as it is sent; what is sent alike is no change.
    package init(
        _ facts: CustomerFacts, knownAt position: Int64, at instant: Timestamp, isTold: Bool = true,
        show: @escaping @Sendable ([EntitlementAnswer]) throws -> [UInt8]
    ) throws {
        let (answers, until) = facts.answersHolding(at: instant)
        (self.position, self.instant, self.until, self.show) = (position, instant, until, show)
        shown = try show(isTold ? answers : [])
    }

    /// Lets time pass, up to and with an instant, while nothing is learned that bears on the customer.
    ///
    /// - Parameters:
    ///   - facts: what is known at the position.
    ///   - position: this one, or a later one up to which nothing bears on the customer.
    package mutating func pass(
        until end: Timestamp, _ facts: CustomerFacts, knownAt position: Int64
    ) throws -> [AnswerChange] {
        self.position = position
        var changes: [AnswerChange] = []
        while until <= end {
            if let change = try look(facts, position, at: until, .time) { changes.append(change) }
        }
        instant = max(instant, end)
        return changes
    }

    /// Learns what is known at a later position, at this instant.
    package mutating func learn(
        _ facts: CustomerFacts, knownAt position: Int64, _ cause: AnswerCause
    ) throws -> AnswerChange? {
        try look(facts, position, at: instant, cause)
    }

    private mutating func look(
        _ facts: CustomerFacts, _ position: Int64, at instant: Timestamp, _ cause: AnswerCause
    ) throws -> AnswerChange? {
        let (answers, until) = facts.answersHolding(at: instant)
        let before = shown
        (self.position, self.instant, self.until) = (position, instant, until)
        shown = try show(answers)
        guard shown != before else { return nil }
        return AnswerChange(cause: cause, position: position, instant: instant, before: before, after: shown)
    }
}
