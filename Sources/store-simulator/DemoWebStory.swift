import StoreSimulator

/// What a customer of the demo bought on the web, told by the books of a simulated Stripe account.
struct DemoWebStory {
    static let eve = "00000000-0000-4000-8000-000000000005"

    /// Something that happened, and the event that tells of it.
    struct Step {
        /// For people; nil for what they need not know.
        let line: String?
        let event: StripeEventEntry
    }

    /// Whose ids are the same in every account in which it is told.
    static let seed: UInt64 = 900_005

    private static let trialDays: Int64 = 14

    /// The instant the story leads up to, in milliseconds since 1970.
    let now: Int64

    /// Tells it to somebody who keeps the books of an account.
    func tell(_ teller: inout WebStoryteller) {
        let begun = (now - 20 * Span.day) / Span.second * Span.second
        let buyer = teller.buyer(Self.eve, at: begun - Span.minute)
        var trial = WebStoryteller.Beginning()
        trial.trialDays = Self.trialDays
        let subscription = teller.subscribe(
            buyer, to: [SimulatedShop.proYearly], at: begun, names: WebNames(Self.eve), trial)
        let invoice = teller.beginPeriod(subscription)
        teller.pay(invoice, at: begun + Self.trialDays * Span.day + Span.hour)
    }

    /// In the order of time.
    var steps: [Step] {
        var teller = WebStoryteller(seed: Self.seed)
        tell(&teller)
        let life = WebLife(teller, seed: Self.seed)
        let lastPaid = life.events.last { $0.type == "invoice.paid" }?.object
        // Two events tell of a payment, in no certain order.
        let charge = life.events.first { $0.object == lastPaid }?.id
        return life.events.map { event in
            if event.id == charge { return Step(line: "Eve's trial is over, and her card is charged", event: event) }
            let isBegin = event.type == "checkout.session.completed"
            return Step(line: isBegin ? "Eve begins a free trial of the yearly plan on the web" : nil, event: event)
        }
    }
}
