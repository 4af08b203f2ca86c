import EntitlementCore

extension StripeFinding {
    /// What an event calls for: what it cannot be understood without, and what should be read again because events of one
    /// second have no order.
    func followUps(of type: String) -> [StripeFollowUp] {
        var followUps = missing()
        let isOver = subscriptions.values.contains { $0.endedAt != nil }
        if type.hasPrefix("customer.subscription."), !isOver {
            followUps += subscriptions.keys.sorted().map { StripeFollowUp(.subscription($0), .soon) }
        }
        if type.hasPrefix("refund.") || type == "charge.refund.updated" {
            followUps += refunds.map { StripeFollowUp(.refund($0.refundID), .soon) }
        }
        if type.hasPrefix("charge.dispute.") {
            followUps += disputes.map { StripeFollowUp(.dispute($0.disputeID), .soon) }
        }
        return followUps
    }

    /// What must be looked up before all takes effect that is stated here, in the order in which to ask.
    func missing() -> [StripeFollowUp] {
        var lookups: [StripeLookup] = []
        for (id, last) in cutItems.sorted(by: { $0.key < $1.key }) {
            lookups.append(.subscriptionItems(id, after: last))
        }
        for invoice in invoices where invoice.paid != nil && invoice.subscription != nil && invoice.hasMoreLines {
            lookups.append(.invoiceLines(invoice.id, after: lastLines[invoice.id]))
        }
        for session in sessions where isProductMissing(of: session) {
            lookups.append(.sessionItems(session.id, after: sold[session.id]?.last))
        }
        for session in sessions where isIntentMissing(of: session) {
            if let intent = session.paymentIntent { lookups.append(.paymentIntent(intent)) }
        }
        for charge in charges where event.map({ $0.type == "charge.refunded" }) ?? refundsAsked.contains(charge) {
            if !refundsSeen.contains(charge) { lookups.append(.refundsOfCharge(charge, after: nil)) }
        }
        lookups += missingTies()
        return lookups.map { StripeFollowUp($0, .now) }
    }

    /// Charges that were looked at for their refunds: those of which no refund was stated beside.
    private var refundsAsked: Set<String> {
        let stated = Set(refunds.compactMap(\.charge))
        return Set(charges).subtracting(stated).subtracting(disputes.compactMap(\.charge))
    }

    /// A charge was refunded, and nothing said by which refunds.
    private var isAboutRefundedCharge: Bool {
        refunds.isEmpty && disputes.isEmpty && !charges.isEmpty && event.map { $0.type == "charge.refunded" } ?? true
    }

    /// What was sold is not in our metadata, and was not looked up wholly.
    private func isProductMissing(of session: FoundSession) -> Bool {
        guard session.mode == .payment, session.isPaid, session.productID == nil, session.original != nil else {
            return false
        }
        if intents.contains(where: { $0.id == session.paymentIntent && $0.productID != nil }) { return false }
        return sold[session.id]?.hasMore ?? true
    }

    /// A one-time payment was made, and its payment intent was not seen: that may say whose it is, or name another than the
    /// session does, and comes with no event that is asked for.
    private func isIntentMissing(of session: FoundSession) -> Bool {
        guard session.mode == .payment, session.isPaid, let intent = session.paymentIntent else { return false }
        return !intents.contains { $0.id == intent }
    }

    /// For what was refunded or disputed payments were made: an invoice of a subscription, or a one-time payment.
    private func missingTies() -> [StripeLookup] {
        guard knownOriginal == nil else { return [] }
        var lookups: [StripeLookup] = []
        let named =
            refunds.map { ($0.paymentIntent, $0.charge) } + disputes.map { ($0.paymentIntent, $0.charge) }
            + (isAboutRefundedCharge
                ? invoicePayments.filter { $0.invoice == nil }.map { ($0.paymentIntent, $0.charge) } : [])
        for (stated, charge) in named {
            let payment =
                stated ?? invoicePayments.first { $0.charge == charge && $0.paymentIntent != nil }?.paymentIntent
            let tied = invoicePayments.filter { paid in
                paid.invoice != nil
                    && (payment != nil && paid.paymentIntent == payment || charge != nil && paid.charge == charge)
            }.compactMap(\.invoice)
            // What is known to be a one-time payment was not made for an invoice of a subscription.
            if let payment, sessions.contains(where: { $0.original == payment }) { continue }
            if let payment, intentsOfSales.contains(where: { $0.id == payment }) { continue }
            if tied.isEmpty {
                if let payment {
                    lookups.append(.invoiceOfPayment(payment))
                } else if let charge {
                    lookups += [.charge(charge), .invoiceOfCharge(charge)]
                }
            }
            for id in tied where !invoices.contains(where: { $0.id == id }) { lookups.append(.invoice(id)) }
            let isOfSubscription = invoices.contains { tied.contains($0.id) && $0.subscription != nil }
            if let payment, !isOfSubscription {
                lookups += [.sessionOfPayment(payment), .paymentIntent(payment)]
            }
        }
        var seen: Set<StripeLookup> = []
        return lookups.filter { seen.insert($0).inserted }
    }
}
