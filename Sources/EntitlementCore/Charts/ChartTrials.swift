/// One subscription of an original, with what its periods were sold as.
struct ChartChain {
    /// Its place among the subscriptions of the original.
    let number: Int
    let periods: [Period]
    /// One for each period.
    let articles: [ChartArticle]
}

/// The free trials of one original: what is free before anything was paid for it.
///
/// All items of a subscription on the web are gone through as one, so that it has one trial however many items it has.
struct ChartTrials {
    struct Trial {
        let article: ChartArticle
        let start: Timestamp
        fileprivate(set) var end: Timestamp
    }

    private struct Place: Hashable {
        let chain: Int
        let index: Int
    }

    /// In the order in which they begin.
    private(set) var all: [Trial] = []
    /// When the first period begins that was paid for; `nil` where none was.
    let paidAt: Timestamp?
    /// The first period that is known goes on with one that is not known.
    let isTakenOver: Bool
    /// The periods of which the trials are made.
    private var places: Set<Place> = []

    init(of chains: [ChartChain]) {
        paidAt = chains.compactMap { $0.periods.first { !$0.isFree }?.opening }.min()
        isTakenOver = chains.first?.periods.first?.goesOnWithEarlier ?? false
        // Whoever comes from before has paid already, or has had a trial.
        if isTakenOver { return }
        var free: [(chain: ChartChain, place: Place, period: Period)] = []
        for chain in chains {
            for (index, period) in chain.periods.enumerated() {
                guard paidAt.map({ period.opening < $0 }) ?? true else { break }
                if period.isFreeToTry { free.append((chain, Place(chain: chain.number, index: index), period)) }
            }
        }
        if chains.count > 1 {
            free.sort {
                ($0.period.opening, $0.place.chain, $0.place.index)
                    < ($1.period.opening, $1.place.chain, $1.place.index)
            }
        }
        for (chain, place, period) in free {
            if let last = all.last, period.opening <= last.end {
                all[all.count - 1].end = max(last.end, period.end)
            } else if period.fact.reason == .known(.renewal) {
                continue
            } else {
                all.append(Trial(article: chain.articles[place.index], start: period.opening, end: period.end))
            }
            places.insert(place)
        }
    }

    /// Whether a period is one of a trial, or a part of one.
    func holds(_ index: Int, of chain: Int) -> Bool {
        !places.isEmpty && places.contains(Place(chain: chain, index: index))
    }

    /// A trial begins; it is converted where a period that was paid for begins within sixty days of the trial's end.
    func add(to contribution: inout ChartContribution) {
        for trial in all { contribution.note(.trialStarted, trial.article, at: trial.start) }
        guard let trial = all.last, let paidAt, paidAt <= trial.end.adding(milliseconds: Period.recoveryLimit) else {
            return
        }
        contribution.note(.trialConverted, trial.article, at: paidAt)
        contribution.note(.trialConvertedOfStarted, trial.article, at: trial.start)
    }
}

extension Period {
    /// How long after the end of what was paid for a store still collects.
    static let recoveryLimit = 60 * Timestamp.millisecondsPerDay

    private var isFreeTrialOffer: Bool { fact.offer?.discount == "FREE_TRIAL" }

    /// Whether nothing was charged for it, as far as that is known.
    fileprivate var isFree: Bool { isFreeTrialOffer || (web?.isFree ?? (fact.price?.thousandths == 0)) }

    /// Whether it is free under an offer that is meant for who has not paid yet: an introductory offer, or an offer code.
    fileprivate var isFreeToTry: Bool {
        guard isFreeTrialOffer, let type = fact.offer?.type else { return false }
        return type == 1 || type == 3
    }

    /// Whether it says itself that its buyer had the subscription before: it is a renewal, or was bought under a
    /// promotional or a win-back offer.
    fileprivate var goesOnWithEarlier: Bool {
        fact.reason == .known(.renewal) || fact.offer?.type == 2 || fact.offer?.type == 4
    }
}
