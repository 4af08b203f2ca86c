import Foundation

// What can be asked to be done: sessions, portals, customers, refunds, and ends of subscriptions.
extension SimulatedStripe {
    typealias Answer = StripeLibrary.Answer

    func post(
        _ method: String, _ path: [String], _ form: StripeForm, _ state: inout State, _ shape: StripeShape,
        at instant: Int64
    ) -> Answer {
        let instant = instant / 1000 * 1000
        let id = path.dropFirst().first ?? ""
        switch (method, path.first, path.count) {
        case ("POST", "checkout", 2) where id == "sessions": return openSession(form, &state, shape, at: instant)
        case ("POST", "checkout", 4) where path[3] == "expire":
            return expireSession(path[2], &state, shape, at: instant)
        case ("POST", "billing_portal", 2) where id == "sessions": return openPortal(form, &state, at: instant)
        case ("POST", "customers", 1): return makeCustomer(form, &state, shape, at: instant)
        case ("POST", "refunds", 1): return refund(form, &state, shape, at: instant)
        case ("POST", "payment_intents", 1): return makePayment(form, &state, shape, at: instant)
        case ("POST", "payment_intents", 2): return changePayment(id, form, &state, shape, at: instant)
        case ("POST", "webhook_endpoints", 1): return makeWebhookEndpoint(form, &state, at: instant)
        case ("POST", "subscriptions", 2): return changeSubscription(id, form, &state, shape, at: instant)
        case ("DELETE", "subscriptions", 2):
            guard let subscription = state.teller.subscriptions[id], subscription.endedAt == nil else {
                return Self.missing("subscription", id)
            }
            state.teller.end(id, at: instant)
            return shown(.subscription(state.teller.subscription(id)), shape)
        default:
            return StripeLibrary.error(404, "Unrecognized request URL (\(method): /v1/\(path.joined(separator: "/"))).")
        }
    }

    private func shown(_ object: StripeObject, _ shape: StripeShape) -> Answer {
        Answer(status: 200, document: object.json(shape, isLive: environment == .production))
    }

    private static func missing(_ kind: String, _ id: String) -> Answer {
        StripeLibrary.error(404, "No such \(kind): '\(id)'", code: "resource_missing", param: "id")
    }

    private static func invalid(_ param: String, _ message: String, code: String? = nil) -> Answer {
        StripeLibrary.error(400, message, code: code, param: param)
    }

    /// Makes the endpoint to which webhooks go; of several the last one stands.
    private func makeWebhookEndpoint(_ form: StripeForm, _ state: inout State, at instant: Int64) -> Answer {
        guard let url = form["url"], url.hasPrefix("http://") || url.hasPrefix("https://") else {
            return Self.invalid("url", "Invalid URL: An explicit scheme (such as https) must be provided.")
        }
        guard form.names.contains(where: { $0.hasPrefix("enabled_events[") }) else {
            return Self.invalid(
                "enabled_events", "Missing required param: enabled_events.", code: "parameter_missing")
        }
        state.webhookURL = url
        return Answer(
            status: 200,
            document: .object([
                "id": .string(state.teller.newID("we")), "object": .string("webhook_endpoint"), "url": .string(url),
                "status": .string("enabled"), "livemode": .boolean(environment == .production),
                "enabled_events": .array([.string("*")]), "created": .seconds(instant), "metadata": .object([:]),
            ]))
    }

    // MARK: - Checkout

    /// The names that a session takes, up to the first bracket.
    private static let sessionNames: Set<String> = [
        "mode", "line_items", "client_reference_id", "metadata", "subscription_data", "payment_intent_data", "customer",
        "customer_email", "customer_creation", "success_url", "cancel_url", "ui_mode", "expires_at", "locale",
        "allow_promotion_codes", "automatic_tax", "payment_method_types", "payment_method_collection", "expand",
    ]

    private func openSession(
        _ form: StripeForm, _ state: inout State, _ shape: StripeShape, at instant: Int64
    ) -> Answer {
        if let unknown = form.names.first(where: { !Self.sessionNames.contains(String($0.prefix { $0 != "[" })) }) {
            return Self.invalid(unknown, "Received unknown parameter: \(unknown)", code: "parameter_unknown")
        }
        guard let mode = form["mode"], mode == "subscription" || mode == "payment" else {
            return Self.invalid("mode", "Invalid mode: must be one of payment, subscription")
        }
        guard form["success_url"] != nil else {
            return Self.invalid("success_url", "Missing required param: success_url.", code: "parameter_missing")
        }
        var prices: [SimulatedWebPrice] = []
        for (index, item) in form.elements("line_items").enumerated() {
            let name = "line_items[\(index)][price]"
            guard let price = shop.first(where: { $0.id == item["price"] }) else {
                return Self.invalid(name, "No such price: '\(item["price"] ?? "")'", code: "resource_missing")
            }
            guard item["quantity"] == nil || item["quantity"] == "1" else {
                return Self.invalid("line_items[\(index)][quantity]", "This simulated Stripe sells one of each.")
            }
            prices.append(price)
        }
        guard !prices.isEmpty else {
            return Self.invalid("line_items", "Missing required param: line_items.", code: "parameter_missing")
        }
        guard prices.contains(where: { $0.interval != nil }) == (mode == "subscription") else {
            return Self.invalid(
                "line_items", "You must use `subscription` mode with recurring prices, and `payment` mode without.")
        }
        if let customer = form["customer"], state.teller.books.object(customer, at: instant) == nil {
            return Self.invalid("customer", "No such customer: '\(customer)'", code: "resource_missing")
        }
        let reference = form["client_reference_id"]
        guard reference?.utf8.count ?? 0 <= 200 else {
            return Self.invalid("client_reference_id", "Invalid string: must be at most 200 characters")
        }
        let texts = [
            form.texts("metadata"), form.texts("subscription_data[metadata]"),
            form.texts("payment_intent_data[metadata]"),
        ]
        for text in texts {
            guard text.count <= 50, text.allSatisfy({ $0.key.utf8.count <= 40 && $0.value.utf8.count <= 500 }) else {
                return Self.invalid("metadata", "Metadata has at most 50 keys of 40 characters, with values of 500.")
            }
        }
        let expiresAt = form["expires_at"].flatMap { Int64($0) }.map { $0 * 1000 } ?? instant + Span.day
        guard (instant + 30 * Span.minute - Span.minute...instant + Span.day + Span.minute).contains(expiresAt) else {
            return Self.invalid("expires_at", "The `expires_at` timestamp must be 30 minutes to 24 hours ahead.")
        }
        var session = StripeSession(
            id: state.teller.newID(environment == .production ? "cs_live" : "cs_test"), mode: mode, status: "open",
            paymentStatus: "unpaid", created: instant, expiresAt: expiresAt, prices: prices,
            amount: prices.reduce(0) { $0 + $1.amount })
        session.customer = form["customer"]
        session.makesCustomer = form["customer_creation"] == "always"
        session.clientReference = reference
        session.metadata = texts[0]
        session.saleMetadata = mode == "subscription" ? texts[1] : texts[2]
        session.trialDays = form["subscription_data[trial_period_days]"].flatMap { Int64($0) }
        session.successURL = form["success_url"]
        session.cancelURL = form["cancel_url"]
        session.url = "\(pages())/c/\(session.id)"
        _ = state.teller.open(session)
        return shown(.session(session), shape)
    }

    private func expireSession(
        _ id: String, _ state: inout State, _ shape: StripeShape, at instant: Int64
    ) -> Answer {
        guard let session = state.teller.sessions[id] else { return Self.missing("checkout.session", id) }
        guard session.status == "open" else {
            return StripeLibrary.error(400, "Only Checkout Sessions with a status in [\"open\"] can be expired.")
        }
        state.teller.expire(id, at: instant)
        return shown(.session(state.teller.sessions[id] ?? session), shape)
    }

    private func openPortal(_ form: StripeForm, _ state: inout State, at instant: Int64) -> Answer {
        guard let customer = form["customer"] else {
            return Self.invalid("customer", "Missing required param: customer.", code: "parameter_missing")
        }
        guard case .customer? = state.teller.books.object(customer, at: instant) else {
            return Self.invalid("customer", "No such customer: '\(customer)'", code: "resource_missing")
        }
        let id = state.teller.newID("bps")
        state.portals[id] = (customer, form["return_url"])
        return Answer(
            status: 200,
            document: .object([
                "id": .string(id), "object": .string("billing_portal.session"), "created": .seconds(instant),
                "customer": .string(customer), "livemode": .boolean(environment == .production),
                "return_url": .text(form["return_url"]), "url": .string("\(pages())/p/\(id)"),
            ]))
    }

    private func makeCustomer(
        _ form: StripeForm, _ state: inout State, _ shape: StripeShape, at instant: Int64
    ) -> Answer {
        let customer = StripeCustomer(
            id: state.teller.newID("cus"), created: instant, email: form["email"], metadata: form.texts("metadata"))
        state.teller.keep(.customer(customer), at: instant, as: "customer.created")
        return shown(.customer(customer), shape)
    }

    // MARK: - Payments without a checkout

    /// A payment that a server makes by itself; it succeeds if it is confirmed at once, and is never tried else.
    private func makePayment(
        _ form: StripeForm, _ state: inout State, _ shape: StripeShape, at instant: Int64
    ) -> Answer {
        guard let amount = form["amount"].flatMap({ Int64($0) }), amount > 0 else {
            return Self.invalid("amount", "Invalid positive integer")
        }
        guard let currency = form["currency"] else {
            return Self.invalid("currency", "Missing required param: currency.", code: "parameter_missing")
        }
        if let customer = form["customer"], state.teller.books.object(customer, at: instant) == nil {
            return Self.invalid("customer", "No such customer: '\(customer)'", code: "resource_missing")
        }
        let intent = state.teller.pay(
            amount, currency, of: form["customer"], metadata: form.texts("metadata"), isPaid: form["confirm"] == "true",
            at: instant)
        return shown(.paymentIntent(intent), shape)
    }

    private func changePayment(
        _ id: String, _ form: StripeForm, _ state: inout State, _ shape: StripeShape, at instant: Int64
    ) -> Answer {
        guard case .paymentIntent(var intent)? = state.teller.books.object(id, at: instant) else {
            return Self.missing("payment_intent", id)
        }
        if let other = form.names.first(where: { !$0.hasPrefix("metadata[") }) {
            return Self.invalid(other, "This simulated Stripe changes nothing of a payment but its metadata.")
        }
        for (key, value) in form.texts("metadata") { intent.metadata[key] = value }
        state.teller.books.keep(.paymentIntent(intent), at: instant)
        return shown(.paymentIntent(intent), shape)
    }

    // MARK: - Changes

    private func refund(_ form: StripeForm, _ state: inout State, _ shape: StripeShape, at instant: Int64) -> Answer {
        let charge = form["charge"] ?? form["payment_intent"].flatMap { state.teller.charge(ofIntent: $0) }
        guard let charge, state.teller.left(of: charge) > 0 else {
            return Self.invalid(
                "charge", "There is no such charge, or all of it was refunded.", code: "charge_already_refunded")
        }
        let amount = form["amount"].flatMap { Int64($0) }
        guard amount.map({ $0 > 0 && $0 <= state.teller.left(of: charge) }) ?? true else {
            return Self.invalid("amount", "Refund amount is greater than what is left of the charge.")
        }
        let before = Set(state.teller.refunds.keys)
        state.teller.refund(charge, amount, at: instant)
        guard let id = state.teller.refunds.keys.first(where: { !before.contains($0) }),
            let refund = state.teller.refunds[id]
        else { return Self.missing("charge", charge) }
        return shown(.refund(refund), shape)
    }

    private func changeSubscription(
        _ id: String, _ form: StripeForm, _ state: inout State, _ shape: StripeShape, at instant: Int64
    ) -> Answer {
        guard let subscription = state.teller.subscriptions[id], subscription.endedAt == nil else {
            return Self.missing("subscription", id)
        }
        if let text = form["cancel_at_period_end"] {
            state.teller.cancelAtPeriodEnd(id, text == "true", at: instant)
        }
        let metadata = form.texts("metadata")
        if !metadata.isEmpty {
            state.teller.say(id, at: instant) { $0.metadata.merge(metadata) { _, new in new } }
        }
        return shown(.subscription(state.teller.subscription(id)), shape)
    }
}

extension WebStoryteller {
    /// The charge by which a payment intent was paid.
    func charge(ofIntent id: String) -> String? { charges.values.first { $0.paymentIntent == id }?.id }
}
