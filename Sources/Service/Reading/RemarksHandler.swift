import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

extension Application {
    /// `GET /v1/remarks`: what was seen and is not known, of every app and environment.
    func showRemarks(_ call: Call) async throws -> HTTPResponse {
        let seen = try await reader.seen()
        let (catalog, _, position) = try await reader.catalog()
        let known = Set(catalog.products.map(\.productID))
        return try .document(
            RemarksDocument(
                countedTo: seen.checkpoint, remarks: seen.remarks.map(RemarksDocument.Seen.init),
                unmappedProducts: seen.products.filter { !known.contains($0.name) }.map(RemarksDocument.Seen.init)),
            position: position)
    }

    /// `GET /v1/charts`: which charts there are, and what figures each has.
    func charts(_ call: Call) async throws -> HTTPResponse { try .document(ChartListDocument()) }
}

extension RemarksDocument.Seen {
    init(_ seen: SeenName) {
        self.init(
            name: seen.name, events: seen.events, firstPosition: seen.firstPosition, lastPosition: seen.lastPosition)
    }
}
