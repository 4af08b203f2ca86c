extension OriginalState {
    /// What holds at an instant, and by which purchase; `nil` before the first begins.
    ///
    /// Of purchases that overlap, such as consumables, the one that reads best speaks.
    package func reading(_ catalog: Catalog, at instant: Timestamp) -> (segment: Segment, period: Period)? {
        var best: (segment: Segment, period: Period)?
        for chain in chains(catalog) {
            let segments = segments(of: chain, policy: catalog.policy)
            guard let segment = segments.last(where: { $0.start <= instant && instant < $0.end }) else { continue }
            if let current = best?.segment.state, current.precedence <= segment.state.precedence { continue }
            best = (segment, chain.periods[segment.periodIndex])
        }
        return best
    }
}
