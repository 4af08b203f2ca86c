/// The outcome of all lines of one item that begin at the same instant.
///
/// Several changes may have been made in one second, or for one `proration_date`. What was sold and credited again at
/// that instant held for no time, whatever the ids of the lines are.
struct WebTurn {
    /// The lines that stay sold, in the order in which each replaces the one before it.
    let sold: [WebStated<WebPaidLine>]
    let credits: [WebStated<WebPaidLine>]
    /// Whether nothing follows what was credited.
    let ends: Bool

    /// - Parameters:
    ///   - lines: all that begin there.
    ///   - running: what ran until then, and would go on.
    ///   - isFirst: whether nothing of the item was paid for before.
    init(_ lines: [WebStated<WebPaidLine>], running: Set<WebProduct>, isFirst: Bool) {
        let sums = WebSums(lines, running: running)
        let exchange = WebExchange(lines, sums, isFirst: isFirst)
        sold = lines.filter { exchange.holds($0.value) }.sorted { left, right in
            let (leftStays, rightStays) = (sums.stays(left.value.line), sums.stays(right.value.line))
            if leftStays != rightStays { return rightStays }
            // A free line comes first: beside a paid one it is that one's credit.
            let (leftIsFree, rightIsFree) = (left.value.line.isFreeProration, right.value.line.isFreeProration)
            return leftIsFree != rightIsFree ? leftIsFree : left.isTurn(before: right)
        }
        credits = lines.filter { $0.value.line.isCredit }
        ends = sold.isEmpty && !exchange.isBack
    }
}

/// What the lines that begin at one instant come to, product by product.
private struct WebSums {
    /// The free prorations of a product, which are counted where nothing else of it is sold or credited there.
    struct Free {
        var count = 0
        /// The last one, which stands for its sale: a sale of 0 looks like a credit of 0.
        var last: WebStated<WebPaidLine>

        /// Whether as many may be sales as credits.
        var isEven: Bool { count.isMultiple(of: 2) }
    }

    let running: Set<WebProduct>
    /// How often each product is sold there, less how often it is credited; free prorations are not counted.
    private(set) var balance: [WebProduct: Int] = [:]
    /// What is charged for each product there, less what is credited.
    private(set) var net: [WebProduct: Int64] = [:]
    private(set) var free: [WebProduct: Free] = [:]

    init(_ lines: [WebStated<WebPaidLine>], running: Set<WebProduct>) {
        self.running = running
        for line in lines.map(\.value.line) {
            net[line.product] = (net[line.product] ?? 0).addingReportingOverflow(line.amount).partialValue
            if line.isCredit { balance[line.product, default: 0] -= 1 }
            if line.isTime, !line.isFreeProration { balance[line.product, default: 0] += 1 }
        }
        for stated in lines {
            let line = stated.value.line
            guard line.isFreeProration, balance[line.product] == nil else { continue }
            var known = free[line.product] ?? Free(last: stated)
            known.count += 1
            if known.last.isTurn(before: stated) { known.last = stated }
            free[line.product] = known
        }
    }

    /// Whether a line's product is there after the instant, by what ran before and by all that is sold and credited.
    func stays(_ line: WebLine) -> Bool {
        let ran = running.contains(line.product)
        if line.isFreeProration { return free[line.product].map { $0.isEven == ran } ?? false }
        return (ran ? 1 : 0) + (balance[line.product] ?? 0) > 0
    }
}

/// What the lines that begin at one instant take back, and what stays sold for that.
private struct WebExchange {
    /// Whether what ran before was free, and was sold again: of such a product the first line is the credit, and an even number
    /// means that it is back.
    let isBack: Bool
    /// Whether what ran before is credited here.
    ///
    /// Then another product that is sold as often as it is credited was only passed through, and is not sold any more.
    private let isMoved: Bool
    /// What is credited by invoices that sell nothing.
    private let takenBack: Set<WebProduct>
    /// The invoices that credit something.
    private let creditors: Set<String>
    private let lines: [WebStated<WebPaidLine>]
    private let sums: WebSums
    /// Whether nothing of the item was paid for before.
    private let isFirst: Bool

    init(_ lines: [WebStated<WebPaidLine>], _ sums: WebSums, isFirst: Bool) {
        (self.lines, self.sums, self.isFirst) = (lines, sums, isFirst)
        let running = sums.running
        isBack = sums.free.contains { running.contains($0.key) && $0.value.isEven }
        // Where nothing paid runs, what ran unpaid is a product that is credited more often than it is sold; where there is
        // none, only the number of seats changed.
        isMoved =
            running.isEmpty
            ? sums.balance.values.contains { $0 < 0 }
            : lines.contains { $0.value.line.isCredit && running.contains($0.value.line.product) }
        let sellers = Set(lines.filter(\.value.line.isTime).map(\.value.invoiceID))
        takenBack = Set(
            lines.filter { $0.value.line.isCredit && !sellers.contains($0.value.invoiceID) }.map(\.value.line.product))
        creditors = Set(
            lines.filter { stated in
                let line = stated.value.line
                let isCreditedAgain = sums.free[line.product]?.isEven ?? false
                return line.isCredit || line.isFreeProration && (running.contains(line.product) || isCreditedAgain)
            }.map(\.value.invoiceID))
    }

    /// Whether a line stays sold.
    func holds(_ paid: WebPaidLine) -> Bool {
        let line = paid.line
        guard line.isTime else { return false }
        if line.isFreeProration { return holds(free: paid) }
        if sums.balance[line.product] ?? 0 > 0 { return true }
        // A new item may be replaced in the instant in which it was added.
        if isFirst, sums.net[line.product] == 0 { return false }
        if takenBack.contains(line.product) { return false }
        return sums.running.contains(line.product) || !isMoved && !isBack
    }

    /// Whether a free proration stays sold.
    ///
    /// It is a sale where its invoice also credits what ran, or the product itself; alone it is the credit of something that was
    /// not paid for.
    private func holds(free paid: WebPaidLine) -> Bool {
        let line = paid.line
        guard let free = sums.free[line.product] else { return false }
        if sums.running.contains(line.product) {
            // Credited and sold again, it goes on in a new period.
            return free.isEven && line.lineID == free.last.value.line.lineID
        }
        let isChanged = lines.contains { other in
            other.value.invoiceID == paid.invoiceID && other.value.line.lineID != line.lineID
                && other.value.line.isFreeProration && other.value.line.product == line.product
        }
        guard sums.running.isEmpty || isChanged || creditors.contains(paid.invoiceID) else { return false }
        return !(isBack && free.isEven)
    }
}

extension WebLine {
    fileprivate var isCredit: Bool { isProration && amount < 0 }

    /// A proration of 0: the credit of something free, or something free that is sold.
    fileprivate var isFreeProration: Bool { isProration && amount == 0 }
}

extension WebStated<WebPaidLine> {
    /// Of what begins at one instant: the one that was paid first, then was stated first, then ends first.
    fileprivate func isTurn(before other: WebStated) -> Bool {
        let (paidAt, otherPaidAt) = (value.paidAt ?? value.line.start, other.value.paidAt ?? other.value.line.start)
        if paidAt != otherPaidAt { return paidAt < otherPaidAt }
        if statedAt != other.statedAt { return statedAt < other.statedAt }
        if value.line.end != other.value.line.end { return value.line.end < other.value.line.end }
        if value.invoiceID != other.value.invoiceID { return value.invoiceID < other.value.invoiceID }
        return value.line.lineID < other.value.line.lineID
    }
}
