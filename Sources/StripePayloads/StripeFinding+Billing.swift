import AppStorePayloads
import EntitlementCore

// Subscriptions, invoices and what pays for them, before and after API version 2025-03-31.basil, which moved the period from
// the subscription to its items, and most of what an invoice and its lines refer to into `parent`, `payments` and `pricing`.

extension StripeFinding {
    mutating func addSubscription(_ object: JSONObject, _ depth: Int) throws(PayloadError) {
        let id = try object.mandatoryID(of: "the subscription")
        let status = try object.mandatory("status", of: "the subscription \(id)") { $0["status"]?.identifier }
        let items = object.elements("items").compactMap { item -> WebItem? in
            guard let itemID = item["id"]?.identifier else { return nil }
            return WebItem(
                item: itemID, product: Self.product(item),
                periodStart: item.instant("current_period_start") ?? object.instant("current_period_start"),
                periodEnd: item.instant("current_period_end") ?? object.instant("current_period_end"))
        }
        if WebSubscriptionStatus(rawValue: status) == nil {
            remarks.insert(.unknownValue(path: "subscription.status", value: status))
        }
        let pause = object["pause_collection"]?.object
        subscriptions[id] = WebSubscription(
            status: Known(status), items: items, hasMoreItems: object.hasMore("items"),
            cancelAt: object.instant("cancel_at"), cancelsAtPeriodEnd: object.flag("cancel_at_period_end"),
            endedAt: object.instant("ended_at"), collectionPause: pause.map { $0["behavior"]?.identifier ?? "" },
            trialStart: object.instant("trial_start"), trialEnd: object.instant("trial_end"))
        if object.hasMore("items") { cutItems[id] = .some(items.last?.item) }
        own(id, .purchase, OwnMetadata(of: object, or: ownerMetadata))
        own(id, payerOf: object)
        for name in [id, object.id("customer")] { note(name: name) }
        try addExpanded(["latest_invoice"], of: object, depth)
    }

    /// Items of a subscription, read by the page.
    mutating func addItems(_ list: JSONObject, of subscription: String) {
        guard var known = subscriptions[subscription] else { return }
        let items = list.elements("data").compactMap { item -> WebItem? in
            item["id"]?.identifier.map {
                WebItem(
                    item: $0, product: Self.product(item), periodStart: item.instant("current_period_start"),
                    periodEnd: item.instant("current_period_end"))
            }
        }
        known.items += items.filter { item in !known.items.contains { $0.item == item.item } }
        known.hasMoreItems = list.flag("has_more")
        subscriptions[subscription] = known
        cutItems[subscription] = known.hasMoreItems ? .some(known.items.last?.item) : nil
    }

    mutating func addInvoice(_ object: JSONObject, _ depth: Int) throws(PayloadError) {
        let id = try object.mandatoryID(of: "the invoice")
        let details =
            object["parent"]?.object?["subscription_details"]?.object ?? object["subscription_details"]?.object
        let lines = object.elements("lines")
        let subscription =
            details?.id("subscription") ?? object.id("subscription") ?? lines.lazy.compactMap(Self.subscription).first
        let status = object["status"]?.identifier
        // Of any other event it may be left out, and the invoice is then taken for one that is not paid.
        guard status != nil || object.contains("paid") || depth > 0 || event?.type != "invoice.paid" else {
            throw .inconsistent("the invoice \(id) has no usable status")
        }
        var invoice = FoundInvoice(
            id: id, subscription: subscription, paid: nil, hasMoreLines: object.hasMore("lines"))
        if status == "paid" || status == nil && object.flag("paid") {
            let paidAt = object["status_transitions"]?.object?.instant("paid_at")
            invoice.paid = WebInvoice(
                invoiceID: id, paidAt: paidAt ?? (depth == 0 ? paidByEvent : nil),
                amountPaid: object["amount_paid"]?.int64, currency: object["currency"]?.identifier,
                lines: try Self.lines(lines, of: subscription, on: id))
            // Pages go on behind what is shown, whatever it is of. What old versions call a line is known to no list of lines.
            let last = lines.last?["id"]?.identifier
            if let last, last.hasPrefix("il_"), lastLines[id] == nil { lastLines[id] = last }
        }
        if subscription == nil {
            invoice.sold = lines.map(Self.product).filter { $0.price != nil || $0.product != nil }
        }
        merge(invoice)
        if let subscription {
            own(subscription, .purchase, OwnMetadata(details?["metadata"]?.object, or: ownerMetadata))
        }
        noteInvoicePayment(
            object.id("payment_intent"), object.id("charge"), id,
            amount: invoice.paid?.amountPaid)
        for payment in object.elements("payments") { try addInvoicePayment(payment, depth, of: id) }
        try addExpanded(["subscription", "payment_intent", "charge"], of: object, depth)
        if let expanded = details?.expanded("subscription") { try add(expanded, depth: depth + 1) }
    }

    /// When the event was made that says that the invoice was paid; `nil` where no such event says it.
    ///
    /// It stands in for the invoice's own date, which not every version of the API tells: a line without any is taken to be paid
    /// from its start, and a failure before the payment would be forgotten.
    private var paidByEvent: Timestamp? {
        guard let said = event.map({ ($0.type, $0.created as Timestamp?) }) ?? subject,
            ["invoice.paid", "invoice.payment_succeeded"].contains(said.0)
        else { return nil }
        return said.1
    }

    /// Lines of a long invoice, read by the page.
    mutating func addLines(_ list: JSONObject, of invoiceID: String) throws(PayloadError) {
        guard let index = invoices.firstIndex(where: { $0.id == invoiceID }) else { return }
        let lines = try Self.lines(list.elements("data"), of: invoices[index].subscription, on: invoiceID)
        let known = Set(invoices[index].paid?.lines.map(\.lineID) ?? [])
        invoices[index].paid?.lines += lines.filter { !known.contains($0.lineID) }
        invoices[index].hasMoreLines = list.flag("has_more")
        lastLines[invoiceID] = list.elements("data").last?["id"]?.identifier ?? lastLines[invoiceID]
    }

    /// Of two renderings of one invoice the one that was paid counts, and the one with more lines.
    private mutating func merge(_ invoice: FoundInvoice) {
        guard let index = invoices.firstIndex(where: { $0.id == invoice.id }) else { return invoices.append(invoice) }
        var known = invoices[index]
        known.subscription = known.subscription ?? invoice.subscription
        if let paid = invoice.paid, paid.lines.count >= known.paid?.lines.count ?? 0 {
            known.paid = paid
            known.hasMoreLines = invoice.hasMoreLines
        }
        invoices[index] = known
    }

    /// The lines of a subscription; others, such as those written by hand, are of none.
    private static func lines(
        _ lines: [JSONObject], of subscription: String?, on invoice: String
    ) throws(PayloadError) -> [WebLine] {
        var found: [WebLine] = []
        for line in lines {
            let item = item(line)
            let isProration = isProration(line)
            guard let subscription else { continue }
            let own = Self.subscription(line)
            guard own == subscription || own == nil && (item != nil || isProration) else { continue }
            // What is billed beside the plan, such as a fee for setting up, is no time of the subscription.
            guard item != nil || isProration || !isInvoiceItem(line) else { continue }
            let id = try line.mandatoryID(of: "a line of the invoice")
            let period = line["period"]?.object
            guard let start = period?.instant("start"), let end = period?.instant("end") else {
                throw .inconsistent("the line \(id) has no usable period")
            }
            guard let amount = line["amount"]?.int64 else {
                throw .inconsistent("the line \(id) has no usable amount")
            }
            found.append(
                WebLine(
                    lineID: lineID(id, line, on: invoice), item: item, product: product(line), start: start, end: end,
                    isProration: isProration,
                    amount: amount))
        }
        return found
    }

    /// What names a line among all lines of all invoices.
    ///
    /// In the versions of the API before 2019-12-03 the id does not: it is that of the subscription or of what was billed, the
    /// same on each invoice (Stripe, "API upgrades"), and `unique_id` stands beside it.
    private static func lineID(_ id: String, _ line: JSONObject, on invoice: String) -> String {
        if id.hasPrefix("il_") { return id }
        return line["unique_id"]?.identifier ?? [invoice, id, item(line)].compactMap(\.self).joined(separator: "/")
    }

    private static func isInvoiceItem(_ line: JSONObject) -> Bool {
        line["parent"]?.object?["invoice_item_details"]?.object != nil || line["type"]?.identifier == "invoiceitem"
    }

    private static func details(_ line: JSONObject) -> JSONObject? {
        let parent = line["parent"]?.object
        return parent?["subscription_item_details"]?.object ?? parent?["invoice_item_details"]?.object
    }

    private static func subscription(_ line: JSONObject) -> String? {
        details(line)?.id("subscription") ?? line.id("subscription")
    }

    private static func item(_ line: JSONObject) -> String? {
        details(line)?.id("subscription_item") ?? line.id("subscription_item")
    }

    private static func isProration(_ line: JSONObject) -> Bool {
        details(line)?["proration"]?.bool ?? line.flag("proration")
    }

    /// What a line or an item sells: of `pricing`, else of `price`, else of the `plan` that came before prices.
    static func product(_ object: JSONObject) -> WebProduct {
        if let details = object["pricing"]?.object?["price_details"]?.object {
            return WebProduct(
                price: details.id("price"),
                product: details.id("product") ?? details.expanded("price")?.id("product"))
        }
        let price = object.expanded("price") ?? object.expanded("plan")
        return WebProduct(
            price: price?["id"]?.identifier ?? object.id("price") ?? object.id("plan"),
            product: price?.id("product") ?? object.id("product"))
    }

    mutating func addInvoicePayment(
        _ object: JSONObject, _ depth: Int, of invoice: String? = nil
    ) throws(PayloadError) {
        let payment = object["payment"]?.object
        noteInvoicePayment(
            payment?.id("payment_intent"), payment?.id("charge"), object.id("invoice") ?? invoice,
            amount: object["amount_paid"]?.int64)
        try addExpanded(["invoice"], of: object, depth)
        if let payment { try addExpanded(["payment_intent", "charge"], of: payment, depth) }
    }
}
