/// What Stripe's API answers to whoever reads, from books as they are at an instant.
package struct StripeLibrary: Sendable {
    package struct Answer: Sendable, Equatable {
        package let status: Int
        package let document: PayloadValue
    }

    /// How far back events are listed, in milliseconds.
    package static let eventAge = 30 * Span.day

    let books: StripeBooks
    let isLive: Bool
    /// The account's clock, in milliseconds since 1970.
    let now: Int64
    /// The version asked for.
    private let shape: StripeShape
    /// What a page holds at most, however much is asked for.
    private let pageLimit: Int
    private let shop: [SimulatedWebPrice]

    package init(
        _ books: StripeBooks, isLive: Bool, now: Int64, shape: StripeShape, pageLimit: Int = 100,
        shop: [SimulatedWebPrice] = SimulatedShop.all
    ) {
        (self.books, self.isLive, self.now, self.shape, self.pageLimit) = (books, isLive, now, shape, pageLimit)
        self.shop = shop
    }

    /// Answers a `GET`.
    ///
    /// - Parameters:
    ///   - path: percent-decoded, without `v1`.
    ///   - query: percent-decoded.
    package func get(_ path: [String], _ query: [(name: String, value: String)] = []) -> Answer {
        let wanted = Query(query)
        switch (path.count, path.first) {
        case (1, "events"): return events(wanted)
        case (2, "events"):
            let event = books.events(until: now).first { $0.id == path[1] && $0.created > now - Self.eventAge }
            return event.map { ok($0.json($0.shape)) } ?? missing("event", path[1])
        case (1, "prices"): return prices(wanted)
        case (2, "prices"):
            return shop.first { $0.id == path[1] }.map { ok($0.json(isLive: isLive)) } ?? missing("price", path[1])
        case (2, "products"): return product(path[1])
        case (1, "products"): return products(wanted)
        case (1, "subscription_items"): return subscriptionItems(wanted)
        case (1, "invoice_payments"): return invoicePayments(wanted)
        case (3, "invoices") where path[2] == "lines": return lines(of: path[1], wanted)
        case (4, "checkout") where path[3] == "line_items": return lineItems(of: path[2], wanted)
        default: return objects(path, wanted)
        }
    }

    func ok(_ document: PayloadValue) -> Answer { Answer(status: 200, document: document) }

    func json(_ object: StripeObject) -> PayloadValue { object.json(shape, isLive: isLive) }

    // MARK: - Objects

    private static let collections = [
        "customers", "subscriptions", "invoices", "checkout/sessions", "payment_intents", "charges", "refunds",
        "disputes",
    ]

    private func objects(_ path: [String], _ wanted: Query) -> Answer {
        let isNested = path.first == "checkout"
        let collection = path.prefix(isNested ? 2 : 1).joined(separator: "/")
        let rest = path.dropFirst(isNested ? 2 : 1)
        guard Self.collections.contains(collection), rest.count < 2 else {
            return Self.error(404, "Unrecognized request URL (GET: /v1/\(path.joined(separator: "/"))).")
        }
        guard let id = rest.first else { return list(collection, wanted) }
        if let unknown = wanted.unknown([]) { return unknown }
        guard let object = books.object(id, at: now), object.collection == collection else {
            return missing(collection.split(separator: "/").last.map { String($0.dropLast()) } ?? collection, id)
        }
        return ok(expand(json(object), wanted.expand))
    }

    private func list(_ collection: String, _ wanted: Query) -> Answer {
        let filters = ["customer", "subscription", "status", "charge", "payment_intent"]
        if let unknown = wanted.unknown(filters) { return unknown }
        let all = books.objects(of: collection, at: now).filter { object in
            filters.allSatisfy { filter in
                guard let value = wanted[filter] else {
                    // Whoever says nothing is not told of what is over.
                    guard collection == "subscriptions", filter == "status" else { return true }
                    return json(object)["status"] != .string("canceled")
                }
                if collection == "subscriptions", filter == "status", value == "all" { return true }
                if filter == "subscription", case .invoice(let invoice) = object {
                    return invoice.subscription == value
                }
                return json(object)[filter] == .string(value)
            } && wanted.includes(created: Self.created(json(object)))
        }
        return expandingData(page(all.map { (json($0), $0.id) }, wanted, url: "/v1/\(collection)"), wanted.expand)
    }

    private static func created(_ json: PayloadValue) -> Int64 {
        if case .integer(let created)? = json["created"] { created } else { 0 }
    }

    private func lines(of id: String, _ wanted: Query) -> Answer {
        guard case .invoice(let invoice)? = books.object(id, at: now) else { return missing("invoice", id) }
        if let unknown = wanted.unknown([]) { return unknown }
        let lines = invoice.lines.map { ($0.json(shape, of: invoice.subscription, isLive: isLive), $0.id) }
        return page(lines, wanted, url: "/v1/invoices/\(id)/lines")
    }

    private func lineItems(of id: String, _ wanted: Query) -> Answer {
        guard case .session(let session)? = books.object(id, at: now) else { return missing("checkout.session", id) }
        if let unknown = wanted.unknown([]) { return unknown }
        let items = session.lineItems(isLive: isLive).map { item -> (PayloadValue, String) in
            if case .string(let id)? = item["id"] { (item, id) } else { (item, "") }
        }
        return page(items, wanted, url: "/v1/checkout/sessions/\(id)/line_items")
    }

    private func subscriptionItems(_ wanted: Query) -> Answer {
        if let unknown = wanted.unknown(["subscription"]) { return unknown }
        guard let id = wanted["subscription"] else {
            return Self.error(400, "Missing required param: subscription.", code: "parameter_missing")
        }
        guard case .subscription(let subscription)? = books.object(id, at: now) else {
            return missing("subscription", id)
        }
        let items = subscription.items.map { ($0.json(shape, isLive: isLive), $0.id) }
        return page(items, wanted, url: "/v1/subscription_items")
    }

    private func invoicePayments(_ wanted: Query) -> Answer {
        if let unknown = wanted.unknown(["payment[type]", "payment[payment_intent]", "payment[charge]", "invoice"]) {
            return unknown
        }
        let payments = books.objects(of: "invoices", at: now).compactMap { object -> (PayloadValue, String)? in
            guard case .invoice(let invoice) = object,
                wanted["payment[payment_intent]"].map({ $0 == invoice.paymentIntent }) ?? true,
                // Invoices are paid by intents, never by a charge alone.
                wanted["payment[charge]"] == nil, wanted["invoice"].map({ $0 == invoice.id }) ?? true,
                let payment = invoice.payment(shape, expanded: wanted.expand.contains("data.invoice"))
            else { return nil }
            return (payment, "inpay_\(invoice.id.dropFirst(3))")
        }
        return page(payments, wanted, url: "/v1/invoice_payments")
    }

    // MARK: - What is sold

    private func prices(_ wanted: Query) -> Answer {
        if let unknown = wanted.unknown(["product", "active"]) { return unknown }
        let prices = shop.filter { price in wanted["product"].map { $0 == price.product } ?? true }
        return page(prices.map { ($0.json(isLive: isLive), $0.id) }, wanted, url: "/v1/prices")
    }

    private func product(_ id: String) -> Answer {
        shop.contains { $0.product == id } ? ok(document(product: id)) : missing("product", id)
    }

    private func products(_ wanted: Query) -> Answer {
        if let unknown = wanted.unknown(["active"]) { return unknown }
        let ids = Set(shop.map(\.product)).sorted()
        return page(ids.map { (document(product: $0), $0) }, wanted, url: "/v1/products")
    }

    private func document(product id: String) -> PayloadValue {
        .object([
            "id": .string(id), "object": .string("product"), "active": .boolean(true), "name": .string(id),
            "livemode": .boolean(isLive), "metadata": .object([:]), "created": .integer(1_700_000_000),
        ])
    }

    // MARK: - Events

    private func events(_ wanted: Query) -> Answer {
        if let unknown = wanted.unknown(["type", "types[]", "delivery_success"]) { return unknown }
        let types = wanted.all("types[]") + (wanted["type"].map { [$0] } ?? [])
        guard types.count <= 20 else {
            return Self.error(400, "You can specify at most 20 types.", code: "parameter_invalid", param: "types")
        }
        let all = books.events(until: now).filter { event in
            event.created > now - Self.eventAge && (types.isEmpty || types.contains(event.type))
                && wanted.includes(created: event.created / 1000)
        }
        // The version asked for changes nothing: an event is listed as it was made.
        return page(all.map { ($0.json($0.shape), $0.id) }, wanted, url: "/v1/events")
    }

    // MARK: - Pages

    /// One page of what is in order, the newest first.
    private func page(_ all: [(json: PayloadValue, id: String)], _ wanted: Query, url: String) -> Answer {
        guard let limit = wanted.limit else {
            return Self.error(400, "Invalid limit: it must be 1 to 100.", code: "parameter_invalid", param: "limit")
        }
        let size = min(limit, pageLimit)
        func place(_ name: String) -> Result<Int?, Lost> {
            guard let id = wanted[name] else { return .success(nil) }
            guard let index = all.firstIndex(where: { $0.id == id }) else { return .failure(Lost(name: name, id: id)) }
            return .success(index)
        }
        do {
            if let after = try place("starting_after").get() {
                let rest = all[(after + 1)...]
                return ok(.list(rest.prefix(size).map(\.json), hasMore: rest.count > size, url: url))
            }
            if let before = try place("ending_before").get() {
                let rest = all[..<before]
                return ok(.list(rest.suffix(size).map(\.json), hasMore: rest.count > size, url: url))
            }
            return ok(.list(all.prefix(size).map(\.json), hasMore: all.count > size, url: url))
        } catch {
            return Self.error(
                400, "No such object: '\(error.id)'", code: "resource_missing", param: error.name)
        }
    }

    /// A cursor that is not in the list.
    private struct Lost: Error {
        let name: String
        let id: String
    }

    // MARK: - Errors

    private func missing(_ kind: String, _ id: String) -> Answer {
        Self.error(404, "No such \(kind): '\(id)'", code: "resource_missing", param: "id")
    }

    static func error(
        _ status: Int, _ message: String, type: String = "invalid_request_error", code: String? = nil,
        param: String? = nil
    ) -> Answer {
        var error: [String: PayloadValue] = ["type": .string(type), "message": .string(message)]
        error["code"] = code.map(PayloadValue.string)
        error["param"] = param.map(PayloadValue.string)
        return Answer(status: status, document: .object(["error": .object(error)]))
    }

    /// The parameters of a list.
    struct Query {
        private let pairs: [(name: String, value: String)]

        init(_ pairs: [(name: String, value: String)]) {
            self.pairs = pairs.map { pair in
                // Lists may be written with or without their places.
                let parts = pair.name.split(separator: "[")
                guard parts.count == 2, parts[1].dropLast().allSatisfy(\.isNumber) else { return pair }
                return ("\(parts[0])[]", pair.value)
            }
        }

        subscript(name: String) -> String? { pairs.last { $0.name == name }?.value }

        func all(_ name: String) -> [String] { pairs.filter { $0.name == name }.map(\.value) }

        var expand: [String] { all("expand[]") }

        /// Nil where it is none that is allowed.
        var limit: Int? {
            guard let text = self["limit"] else { return 10 }
            return Int(text).flatMap { (1...100).contains($0) ? $0 : nil }
        }

        /// Whether an instant, in seconds, lies within the bounds.
        func includes(created: Int64) -> Bool {
            func bound(_ name: String) -> Int64? { self[name].flatMap { Int64($0) } }
            return (bound("created").map { created == $0 } ?? true)
                && (bound("created[gte]").map { created >= $0 } ?? true)
                && (bound("created[gt]").map { created > $0 } ?? true)
                && (bound("created[lte]").map { created <= $0 } ?? true)
                && (bound("created[lt]").map { created < $0 } ?? true)
        }

        /// The refusal of a parameter that nobody knows.
        func unknown(_ known: [String]) -> Answer? {
            let always = [
                "limit", "starting_after", "ending_before", "expand[]", "created", "created[gte]", "created[gt]",
                "created[lte]", "created[lt]",
            ]
            guard let name = pairs.map(\.name).first(where: { !known.contains($0) && !always.contains($0) }) else {
                return nil
            }
            return error(400, "Received unknown parameter: \(name)", code: "parameter_unknown", param: name)
        }
    }
}
