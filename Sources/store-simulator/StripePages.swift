import Foundation
import HTTPServer
import StoreSimulator

/// The pages of the simulated Stripe: a checkout, a customer's portal, and all there is.
struct StripePages: Sendable {
    private let stripe: SimulatedStripe
    private let postman: StripePostman
    private let directory: DemoDirectory

    init(_ stripe: SimulatedStripe, _ postman: StripePostman, _ directory: DemoDirectory) {
        self.stripe = stripe
        self.postman = postman
        self.directory = directory
    }

    func answer(_ request: HTTPRequest) async -> HTTPResponse {
        let path = request.pathSegments
        let form = Form(request.body)
        switch (request.method, path.first, path.count) {
        case ("GET", nil, _): return page("Simulated Stripe", overview())
        case ("GET", "thanks", 1): return page("Thank you", thanks(request))
        case ("GET", "c", 2): return checkout(path[1])
        case ("POST", "c", 2):
            guard let payment = SimulatedStripe.Payment(rawValue: form["payment"]),
                let next = stripe.pay(path[1], by: payment)
            else { return page("Not paid", "<p>This checkout is not open any more.</p>", status: 409) }
            return HTTPResponse(status: 303, headers: [("Location", next)])
        case ("GET", "p", 2):
            guard let portal = stripe.portal(path[1]) else { break }
            let back = portal.returnURL.map { "<p><a href=\"\(Self.escaped($0))\">Back to the app</a></p>" } ?? ""
            return page("Your purchases", purchases(of: portal.customer, back: "/p/\(path[1])") + back)
        case ("POST", "act", 1):
            guard let deed = SimulatedStripe.Deed(rawValue: form["deed"]) else { break }
            stripe.act(deed, on: form["id"])
            let back = form["back"].hasPrefix("/") && !form["back"].hasPrefix("//") ? form["back"] : "/"
            return HTTPResponse(status: 303, headers: [("Location", back)])
        case ("POST", "demo", 1) where stripe.environment == .production:
            guard let now = try? directory.storyInstant(now: StoreSimulatorProgram.currentMilliseconds()) else { break }
            stripe.tell(asOf: DemoWebStory.seed) { DemoWebStory(now: now).tell(&$0) }
            return HTTPResponse(status: 200, headers: [("Content-Type", "text/plain")])
        case ("POST", "told", 1):
            // A receiver of the demo's outgoing webhooks, which takes everything.
            return HTTPResponse(status: 200, headers: [("Content-Type", "text/plain")])
        default: break
        }
        return page("Not found", "<p>There is no such page.</p>", status: 404)
    }

    // MARK: - Checkout

    private func checkout(_ id: String) -> HTTPResponse {
        guard let session = stripe.session(id) else {
            return page("Not found", "<p>There is no such checkout.</p>", status: 404)
        }
        guard session.status == "open" else {
            return page("Over", "<p>This checkout is \(Self.escaped(session.status)).</p>", status: 410)
        }
        let lines = session.prices.map { "<li>\(Self.escaped(Self.text($0)))</li>" }.joined()
        let ways: [(SimulatedStripe.Payment, String)] =
            session.mode == "subscription"
            ? [(.card, "Pay by card"), (.cardOnce, "Pay by a card that is refused when it renews")]
            : [(.card, "Pay by card"), (.bank, "Pay by bank: the money arrives in 20 seconds")]
        let buttons = ways.map { button($0.1, to: "/c/\(id)", ["payment": $0.0.rawValue]) }.joined(separator: " ")
        let leave = session.cancelURL.map { "<p><a href=\"\(Self.escaped($0))\">Leave without paying</a></p>" } ?? ""
        return page("Checkout", "<ul>\(lines)</ul><p>\(buttons)</p>\(leave)")
    }

    private func thanks(_ request: HTTPRequest) -> String {
        let id = request.query.first { $0.name == "session" }?.value ?? ""
        return "<p>The checkout \(Self.escaped(id)) is paid. In your own app this page is yours.</p>"
            + "<p><a href=\"/\">What was bought</a></p>"
    }

    private static func text(_ price: SimulatedWebPrice) -> String {
        let amount = "\(price.amount / 100).\(price.amount % 100 < 10 ? "0" : "")\(price.amount % 100)"
        return "\(price.catalogProductID ?? price.product): \(amount) \(price.currency.uppercased())"
            + (price.interval.map { " every \($0)" } ?? "")
    }

    // MARK: - What was bought

    private func overview() -> String {
        let open = stripe.openSessions.map { "<li><a href=\"/c/\($0)\">\(Self.escaped($0))</a></li>" }.joined()
        let deliveries = postman.newest.map { delivery in
            "<tr><td>\(Self.text(delivery.event.created))</td><td>\(Self.escaped(delivery.event.type))</td>"
                + "<td>\(Self.escaped(delivery.event.id))</td><td>\(Self.escaped(delivery.outcome))</td></tr>"
        }.joined()
        return "<h2>Bought</h2>" + purchases(of: nil, back: "/") + "<h2>Open checkouts</h2>"
            + (open.isEmpty ? "<p>None.</p>" : "<ul>\(open)</ul>") + "<h2>Events</h2><table>\(deliveries)</table>"
    }

    private func purchases(of customer: String?, back: String) -> String {
        let rows = stripe.purchases(of: customer).map { object in
            let (id, text, deeds) = Self.shown(object)
            let buttons = deeds.map { button($0.1, to: "/act", ["deed": $0.0.rawValue, "id": id, "back": back]) }
            return "<tr><td>\(Self.escaped(id))</td><td>\(Self.escaped(text))</td>"
                + "<td>\(buttons.joined(separator: " "))</td></tr>"
        }
        return rows.isEmpty ? "<p>Nothing yet.</p>" : "<table>\(rows.joined())</table>"
    }

    private static func shown(
        _ object: StripeObject
    ) -> (id: String, text: String, deeds: [(SimulatedStripe.Deed, String)]) {
        let money: [(SimulatedStripe.Deed, String)] = [
            (.refund, "Refund"), (.dispute, "Dispute"), (.winDispute, "Withdraw the dispute"),
        ]
        switch object {
        case .subscription(let subscription):
            let isOver = subscription.endedAt != nil
            let end = subscription.cancelsAtPeriodEnd ? "ends" : "period ends"
            let text =
                "\(subscription.status)\(subscription.pause == nil ? "" : ", paused")"
                + (isOver ? "" : ", \(end) \(Self.text(subscription.periodEnd))")
            let running: [(SimulatedStripe.Deed, String)] = [
                subscription.cancelsAtPeriodEnd
                    ? (.keep, "Keep it") : (.cancelAtPeriodEnd, "Cancel at the period's end"),
                (.cancelNow, "Cancel now"), (.breakCard, "Let the card be refused"),
                (.mendCard, "Let the card be good"),
                subscription.pause == nil ? (.pause, "Pause") : (.resume, "Resume"),
            ]
            return (subscription.id, text, (isOver ? [] : running) + money)
        case .session(let session):
            return (session.paymentIntent ?? session.id, "one-time payment, \(session.paymentStatus)", money)
        case .customer, .invoice, .paymentIntent, .charge, .refund, .dispute, .other:
            return (object.id, "", [])
        }
    }

    private static func text(_ instant: Int64) -> String {
        Date(timeIntervalSince1970: Double(instant) / 1000).formatted(.iso8601)
    }

    // MARK: - HTML

    private func button(_ text: String, to path: String, _ fields: [String: String]) -> String {
        let inputs = fields.sorted { $0.key < $1.key }.map { name, value in
            "<input type=\"hidden\" name=\"\(name)\" value=\"\(Self.escaped(value))\">"
        }
        return "<form method=\"post\" action=\"\(Self.escaped(path))\">\(inputs.joined())"
            + "<button>\(Self.escaped(text))</button></form>"
    }

    private func page(_ title: String, _ content: String, status: Int = 200) -> HTTPResponse {
        let style =
            "body{font:16px system-ui;margin:2em auto;max-width:70em;padding:0 1em}form{display:inline}"
            + "td{padding:.2em .6em;border-top:1px solid #ccc}table{border-collapse:collapse}"
        let html =
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>\(Self.escaped(title))</title>"
            + "<meta name=\"viewport\" content=\"width=device-width\"><style>\(style)</style>"
            + "<h1>\(Self.escaped(title))</h1>\(content)<p><small>A simulated Stripe, for tests: no money moves.</small></p></html>"
        return HTTPResponse(
            status: status, headers: [("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store")],
            body: Array(html.utf8))
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
            .replacing("\"", with: "&quot;").replacing("'", with: "&#39;")
    }

    /// What a form of these pages posts.
    private struct Form {
        private var values: [String: String] = [:]

        init(_ body: [UInt8]) {
            for pair in String(decoding: body, as: UTF8.self).split(separator: "&") {
                let words = pair.split(separator: "=", maxSplits: 1).map { word in
                    word.replacing("+", with: " ").removingPercentEncoding ?? ""
                }
                if words.count == 2 { values[words[0]] = words[1] }
            }
        }

        subscript(name: String) -> String { values[name] ?? "" }
    }
}
