import Foundation
import StoreSimulator

/// Who is told of changes in the demo: a receiver that takes everything, and one that nobody serves.
struct DemoReceivers {
    /// What tells the demo's endpoints from others.
    private static let (taking, away) = ("Demo: takes everything", "Demo: nobody is there")
    /// Where nothing is ever served (TCP's discard).
    private static let nowhere = "http://127.0.0.1:9/told"

    private struct Endpoints: Decodable {
        struct Endpoint: Decodable {
            let id: String
            let description: String?
        }
        let items: [Endpoint]
    }

    private let store: StoreClient

    init(_ store: StoreClient) { self.store = store }

    /// Makes the endpoints, or lets them know where the receiver is by now.
    ///
    /// - Parameter url: of the simulated Stripe, which serves it; `nil`: nobody does.
    func open(at url: String?) async throws {
        guard let url, store.canAsk else { return }
        let path = "v1/webhook_endpoints"
        let known = try JSONDecoder().decode(Endpoints.self, from: try await store.get(path)).items
        for (description, address) in [(Self.taking, "\(url)/told"), (Self.away, Self.nowhere)] {
            if let endpoint = known.first(where: { $0.description == description }) {
                try await store.post("\(path)/\(endpoint.id)", "PATCH", json: ["url": .string(address)])
            } else {
                try await store.post(path, json: ["url": .string(address), "description": .string(description)])
            }
        }
    }
}
