import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger

/// Reads the catalog, and writes it.
struct CatalogHandlers: Sendable {
    let context: ServiceContext
    let writer: LedgerWriter

    /// `GET /v1/catalog`: the entity tag is the position at which the catalog was written.
    func read(_ call: Call) async throws -> HTTPResponse {
        let (catalog, writtenAt, position) = try await context.reader.catalog()
        let tag = Self.tag(writtenAt)
        if let known = try call.value(of: .ifNoneMatch), EntityTagList(known)?.matchesWeakly(tag) == true {
            return HTTPResponse(status: 304, headers: HTTPResponse.ledgerPosition(position) + [("ETag", tag)])
        }
        return try Self.answer(CatalogDocument(catalog), writtenAt: writtenAt, position: position)
    }

    /// `PUT /v1/catalog`: one event, whatever the number of customers it touches.
    func replace(_ call: Call) async throws -> HTTPResponse {
        let sent = try Self.catalog(in: call)
        let catalog = sent.catalog
        let deduplication = try context.deduplication(of: call, about: nil)
        let current = try await context.reader.catalog()
        let expected = try Self.expectedPosition(call, current: current.writtenAt)
        // Under a key even the same catalog becomes an event, since the event is what remembers the key.
        if deduplication == .unique {
            if let expected, expected != current.writtenAt {
                throw AppendRefusal.catalogChanged(writtenAt: current.writtenAt)
            }
            if catalog == current.catalog {
                // As it is in force, which may spell a name otherwise: what Unicode calls equivalent is the same.
                return try Self.answer(
                    sent.replacing(current.catalog), writtenAt: current.writtenAt, position: current.position)
            }
        }
        let outcome = try await writer.append(
            EventDraft(
                environment: nil, source: .api, type: "catalog_applied", occurredAt: nil, fact: .catalog(catalog),
                identities: [], deduplication: deduplication, expectedCatalogPosition: expected))
        return try Self.answer(sent, writtenAt: outcome.position, position: outcome.position)
    }

    /// The catalog that a request's body holds.
    static func catalog(in call: Call) throws(Problem) -> CatalogDocument {
        let body = try call.unambiguousBody()
        do throws(CatalogDocumentError) {
            return try CatalogDocument(parsing: body, from: .request)
        } catch {
            throw Problem(.malformedRequest, "\(error).", param: error.path.isEmpty ? nil : error.path)
        }
    }

    private static func answer(_ document: CatalogDocument, writtenAt: Int64, position: Int64) throws -> HTTPResponse {
        .json(
            headers: HTTPResponse.ledgerPosition(position) + [("ETag", tag(writtenAt))],
            try document.encoded(writtenAt: writtenAt))
    }

    private static func tag(_ position: Int64) -> String { "\"\(position)\"" }

    /// The position at which the catalog must have been written; `nil` when any will do.
    ///
    /// A tag that never was one stands for a position that no catalog has.
    private static func expectedPosition(_ call: Call, current: Int64) throws(Problem) -> Int64? {
        guard let value = try call.value(of: .ifMatch) else { return nil }
        guard let list = EntityTagList(value) else {
            throw Problem(.malformedRequest, "If-Match lists entity tags in quotes, or is *.", param: "If-Match")
        }
        if list.isAny { return current > 0 ? current : -1 }
        if list.tags.contains(tag(current)) { return current }
        // Weak tags never match here, and what an earlier request under the same key was sent with must not change it.
        return list.tags.lazy.compactMap { Int64($0.dropFirst().dropLast()) }.first ?? -1
    }
}
