import AppStoreServer
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import StoreSimulator
import TestSupport
import Testing

@testable import Service

/// A service over a ledger with one purchase, whose owner is known.
struct ConsumptionStage {
    static let token = "0f1d2e3c-4b5a-6978-8796-a5b4c3d2e1f0"

    let rig: ServiceRig
    let store: SimulatedStoreAPI
    let purchase: HeldTransaction

    init(_ purchase: HeldTransaction? = nil) async throws {
        rig = try await ServiceRig.withCatalog(asksStore: true)
        store = try #require(rig.asked?[ServiceRig.bundleID, .production])
        // The rig's clock stands at noon of day 334.
        self.purchase =
            purchase
            ?? HeldTransaction(
                id: "7", product: "com.example.pro.monthly", from: 320, until: 350, signed: 320,
                token: Self.token)
        try await rig.notify(self.purchase, uuid: "bought")
        try store.remember(self.purchase.members)
    }

    func answerer(
        holder: String = "one", preference: ConsumptionInformation.RefundPreference? = .decline,
        consents: Bool = true, append: (@Sendable (EventDraft) async throws -> AppendOutcome)? = nil
    ) throws -> ConsumptionAnswerer {
        let client = try #require(rig.asked?.clients.first)
        let consentedApps = StoreEnvironment.allCases.map {
            ConsumptionAnswerer.ConsentedApp(
                client: client, environment: $0,
                policy: ConsumptionPolicy(sampleContentProvided: false, refundPreference: preference))
        }
        let writer = rig.ledger.writer
        return ConsumptionAnswerer(
            consents ? consentedApps : [], register: ConsumptionRegister(pool: rig.pool, holder: holder),
            reader: rig.context.reader, metrics: rig.context.metrics, logger: rig.context.logger,
            watch: nil, now: rig.context.now,
            append: append ?? { try await writer.append($0) })
    }

    /// The store asks now.
    ///
    /// - Returns: the `signedPayload` that it sent.
    @discardableResult
    func ask(_ uuid: String = "asked", isDelivered: Bool = true) async throws -> String {
        let now = Double(rig.clock.now.milliseconds - day(0).milliseconds) / 86_400_000
        let payload = try store.send(
            "CONSUMPTION_REQUEST", uuid: uuid, purchase.with { $0.signed = now }.members)
        if isDelivered { #expect(try await rig.deliver(payload).status == 200) }
        return payload
    }

    func pass(hours: Double) {
        rig.clock.now = rig.clock.now.adding(milliseconds: Int64(hours * 3_600_000))
    }

    /// `accepted`, `refused 4000043`, `withheld refunded` and so on: how each question ended.
    func ends() async throws -> [String] {
        let events = try await rig.context.reader.events(after: 0, limit: 1000).events
        return events.compactMap { event in
            guard case .storeRequest(let fact) = event.fact else { return nil }
            #expect(event.record.type == "consumption_settled" && event.record.source == .serverAPI)
            return switch fact.outcome {
            case .refused(let code): "refused \(code ?? 0)"
            case .withheld(let reason): "withheld \(reason.rawValue)"
            case .pending, .accepted, .tooLate: fact.outcome.word
            }
        }
    }

    func metric(_ line: String) async throws -> Bool { try await rig.get("/metrics").text.contains(line) }

    func told() -> [String] { store.consumption(of: purchase.id) }

    /// Erases a customer, as `rightful forget` does.
    func forget(_ customer: String) async throws {
        let forgetter = Forgetter(pool: PostgresPool(rig.database.ownerConninfo), now: { .earliest })
        #expect(try await forgetter.forget(try #require(CustomerID(customer))) != nil)
    }
}
