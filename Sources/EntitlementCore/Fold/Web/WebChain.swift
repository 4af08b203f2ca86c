// How the paid lines of one subscription item follow, replace and end each other.

/// A paid line while its neighbours are weighed.
struct WebDraft {
    let stated: WebStated<WebPaidLine>
    /// Whatever its invoice bills for the same time, the line included.
    let billed: [WebLine]
    /// What takes it back.
    let withdrawal: WebWithdrawal?
    var start: Timestamp
    /// Where it ends as far as its neighbours and what was paid say.
    var end: Timestamp
    var opening: Timestamp
    var ending = Period.End.ranOut
    var positions: [Int64]

    init(_ stated: WebStated<WebPaidLine>, billed: [WebLine], withdrawal: WebWithdrawal?) {
        self.stated = stated
        self.billed = billed
        self.withdrawal = withdrawal
        start = stated.value.line.start
        end = stated.value.line.end
        opening = start
        positions = [stated.position]
    }

    /// Where it ends, also by a refund or a dispute.
    var heldUntil: Timestamp { withdrawal.map { min(end, max($0.at, start)) } ?? end }

    /// Whether it ran up to an instant, and would have run on.
    fileprivate func isReplaced(at instant: Timestamp) -> Bool {
        start < instant && instant <= end && instant < stated.value.line.end
    }

    fileprivate mutating func end(at instant: Timestamp, as ending: Period.End, by position: Int64) {
        end = instant
        self.ending = ending
        positions.append(position)
    }
}

/// The paid time that runs at the instant at which new lines begin.
private struct WebGround {
    private let instant: Timestamp
    /// The earliest opening of what runs there; `nil` where nothing runs, as while a charge fails.
    private let opening: Timestamp?
    private let isFirst: Bool

    /// - Parameter isFirst: whether nothing was paid for before.
    init(of running: [WebDraft], at instant: Timestamp, isFirst: Bool) {
        (self.instant, self.isFirst) = (instant, isFirst)
        opening = running.map(\.opening).min()
    }

    /// The opening of a line that replaces what runs: its start, but not before one of the two was paid, because what
    /// nobody had paid for gave no access.
    func opening(paidAt: Timestamp) -> Timestamp {
        isFirst ? instant : min(paidAt, max(instant, opening ?? .endless))
    }
}

extension WebOriginal {
    /// The paid lines of one item, in order: each delays or ends its neighbours.
    ///
    /// - Parameter predecessors: the paid lines of the items that this one replaced.
    func drafts(
        of lines: [WebStated<WebPaidLine>], _ withdrawals: WebWithdrawals, predecessors: [WebDraft] = []
    ) -> [WebDraft] {
        var chain: [WebDraft] = []
        let turns = Dictionary(grouping: lines.filter { !$0.value.line.isEmpty }, by: \.value.line.start)
        for (start, begun) in turns.sorted(by: { $0.key < $1.key }) {
            // Only the last one that began: what covers the instant beside it was taken back.
            let running = chain.last { $0.start < start }.flatMap { start < $0.end ? $0 : nil }
            let turn = WebTurn(
                begun, running: Set([running?.stated.value.line.product].compactMap(\.self)), isFirst: chain.isEmpty)
            let ground = WebGround(
                of: chain.isEmpty
                    ? predecessors.filter { $0.isReplaced(at: start) } : [running].compactMap(\.self), at: start,
                isFirst: chain.isEmpty && predecessors.isEmpty)
            // What is replaced comes before what replaces it.
            let sold = turn.sold.map { (stated: $0, replaces: replaces($0.value, among: lines)) }
            let plain = sold.filter { !$0.replaces }.sorted { $0.stated.value.line.end < $1.stated.value.line.end }
            var known: Set<String> = []
            for (stated, replaces) in plain + sold.filter(\.replaces) {
                let billed = begun.map(\.value).filter { $0.billsTime(of: stated.value) }.map(\.line)
                // One time is one period, however many lines bill it.
                let isKnown = billed.contains { known.contains($0.lineID) }
                known.insert(stated.value.line.lineID)
                if isKnown, !replaces { continue }
                let withdrawal = withdrawals.first(ofInvoice: stated.value.invoiceID)
                let draft = WebDraft(stated, billed: billed, withdrawal: withdrawal)
                append(draft, replaces: replaces, on: ground, to: &chain)
            }
            if turn.ends {
                for credit in turn.credits { end(by: credit, among: lines, in: &chain) }
            }
        }
        // A period that was paid later than its successor is never shown: it was over, or the successor was in force
        // already. So it gets the successor's opening.
        let endedAt = ending?.value.endedAt ?? .endless
        var earliest = Timestamp.endless
        for index in chain.indices.reversed() where chain[index].start < endedAt {
            earliest = min(earliest, chain[index].opening)
            chain[index].opening = earliest
        }
        return chain
    }

    private func append(
        _ draft: WebDraft, replaces: Bool, on ground: WebGround, to chain: inout [WebDraft]
    ) {
        var draft = draft
        // A late payment does not change how the time before it reads.
        let paidAt = max(draft.start, draft.stated.value.paidAt ?? draft.start)
        if replaces {
            draft.opening = ground.opening(paidAt: paidAt)
            for index in chain.indices where chain[index].end > draft.start {
                chain[index].end(at: draft.start, as: .superseded, by: draft.stated.position)
            }
            chain.removeAll { $0.end <= $0.start }
        } else if let last = chain.max(by: { $0.heldUntil < $1.heldUntil }) {
            // What was taken back leaves its time to what was paid for besides.
            if last.heldUntil > draft.start {
                draft.start = last.heldUntil
                draft.positions += last.positions + (last.heldUntil < last.end ? last.withdrawal?.positions ?? [] : [])
            }
            draft.opening = max(draft.start, paidAt)
        } else {
            draft.opening = ground.opening(paidAt: paidAt)
        }
        if draft.start < draft.end { chain.append(draft) }
    }

    /// What is credited ends where the credit begins, unless something else of the item begins within it.
    private func end(
        by credit: WebStated<WebPaidLine>, among lines: [WebStated<WebPaidLine>], in chain: inout [WebDraft]
    ) {
        let (line, invoice) = (credit.value.line, credit.value.invoiceID)
        let goesOn = lines.contains { other in
            other.value.invoiceID == invoice && other.value.line.isTime && line.start < other.value.line.start
                && other.value.line.start < line.end
        }
        if goesOn { return }
        // Another item may have taken its place.
        let isReplaced = self.lines.contains { other in
            other.value.invoiceID == invoice && other.value.line.isTime && other.value.line.start == line.start
        }
        for index in chain.indices {
            let draft = chain[index]
            guard line.start < draft.end else { continue }
            // A credit that names no item may be another item's, so the product must be the same.
            guard line.item != nil || draft.stated.value.line.product == line.product else { continue }
            // A later period that lies within the credit is credited as a whole.
            guard draft.start < line.start else {
                if draft.end <= line.end { chain[index].end = draft.start }
                continue
            }
            chain[index].end(at: line.start, as: isReplaced ? .superseded : .cancelled, by: credit.position)
        }
        chain.removeAll { $0.end <= $0.start }
    }

    /// Whether a line replaces what ran before: it is a proration, or its invoice credits the rest of what ran; the
    /// credit of something free is 0.
    private func replaces(_ paid: WebPaidLine, among lines: [WebStated<WebPaidLine>]) -> Bool {
        paid.line.isProration
            || lines.contains { other in
                let credit = other.value.line
                return credit.isProration && other.value.invoiceID == paid.invoiceID
                    && (credit.amount < 0 || credit.amount == 0 && credit.product != paid.line.product)
                    && credit.start <= paid.line.start && paid.line.start < credit.end
            }
    }
}

extension WebLine {
    fileprivate var isEmpty: Bool { end <= start }

    /// Whether it is a stretch of time that may have been paid for.
    var isTime: Bool { !isEmpty && amount >= 0 }

    /// What it bills; `nil` for a credit.
    var billedTime: BilledTime? {
        guard isTime else { return nil }
        return BilledTime(item: item, product: product, start: start, end: end, isProration: isProration)
    }
}

/// A stretch of time of one item; several lines of an invoice may bill one, as a price in tiers has a line for each tier.
struct BilledTime: Hashable {
    let item: String?
    let product: WebProduct
    let start: Timestamp
    let end: Timestamp
    let isProration: Bool
}

extension WebPaidLine {
    fileprivate func billsTime(of other: WebPaidLine) -> Bool {
        invoiceID == other.invoiceID && line.billedTime == other.line.billedTime
    }
}
