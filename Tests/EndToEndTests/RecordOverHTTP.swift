import EmbeddedPostgres
import EntitlementCore
import Foundation
import PostgresClient
import StoreSimulator
import Testing

/// What a service answers about customers, in the words of the simulator's record.
extension HTTPClient {
    /// The timelines of a customer.
    func timelines(of customer: CustomerKey, _ context: String) async throws -> [String: [RecordInterval]] {
        let answer = try await send(
            "GET", "/v1/customers/\(customer.customerID)/timeline",
            query: ["environment": customer.environment.rawValue])
        let entitlements = try #require(answer.json["entitlements"] as? [[String: Any]], "\(context): \(answer.text)")
        var timelines: [String: [RecordInterval]] = [:]
        for entitlement in entitlements {
            let intervals = try #require(entitlement["intervals"] as? [[String: Any]])
            timelines[try #require(entitlement["id"] as? String)] = try intervals.map { try RecordInterval(json: $0) }
        }
        return timelines
    }

    /// The entitlements of a customer at an instant.
    func entitlements(of customer: CustomerKey, at instant: Int64, _ context: String) async throws -> [RecordAnswer] {
        let answer = try await send(
            "GET", "/v1/customers/\(customer.customerID)/entitlements",
            query: [
                "environment": customer.environment.rawValue, "at": "\(Timestamp(milliseconds: instant))",
            ])
        let items = try #require(answer.json["entitlements"] as? [[String: Any]], "\(context): \(answer.text)")
        // An answer to another question would be the worst of all.
        try #require(
            answer.json["at"] as? String == "\(Timestamp(milliseconds: instant))"
                && answer.json["customer_id"] as? String == customer.customerID,
            "\(context): asked for \(customer) at \(Timestamp(milliseconds: instant)): \(answer.headers) \(answer.text)"
        )
        return try items.map { try RecordAnswer(json: $0) }
    }

    /// Holds a customer's timelines, and the answers at up to `limit` of the instants, against the record.
    ///
    /// - Parameter instants: beside the record's own boundaries and their neighbours, which are thinned where a life
    ///   has very many; these are not.
    func expectRecord(
        _ record: CustomerRecord, of customer: CustomerKey, alsoAt instants: [Int64] = [], limit: Int = 90,
        _ context: String
    ) async throws {
        // One difference is enough to know; the thousand that follow from it would only hide it.
        let timelines = try await timelines(of: customer, context)
        try #require(
            timelines == record.timelines,
            "\(context), \(customer): \(lines(timelines)) instead of \(lines(record.timelines))")
        let boundaries = record.boundaryInstants
        let step = boundaries.count / max(limit, 1) + 1
        let chosen = stride(from: 0, to: boundaries.count, by: step).map { boundaries[$0] } + instants
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, instant) in Set(chosen).sorted().enumerated() {
                if index >= 6 { try await group.next() }
                group.addTask {
                    let answers = try await self.entitlements(of: customer, at: instant, context)
                    try #require(
                        answers == record.answer(at: instant),
                        "\(context), \(customer) at \(Timestamp(milliseconds: instant))")
                }
            }
            try await group.waitForAll()
        }
    }
}

/// Timelines for people to compare.
private func lines(_ timelines: [String: [RecordInterval]]) -> String {
    timelines.sorted { $0.key < $1.key }.map { entitlement, intervals in
        let texts = intervals.map { interval in
            let until = interval.until.map { "\(Timestamp(milliseconds: $0))" } ?? "∞"
            return "\(Timestamp(milliseconds: interval.from))…\(until) \(interval.state.rawValue) "
                + "\(interval.source.rawValue) \(interval.productID) \(interval.originalTransactionID)"
        }
        return "\n  \(entitlement)\n    " + texts.joined(separator: "\n    ")
    }.joined() + "\n"
}

extension Installation {
    /// Deletes every row of the views behind the service's back.
    func deleteViews() async throws { try await asOwner("DELETE FROM original_view") }

    /// Changes the database as the owner of the tables.
    func asOwner(_ sql: String) async throws {
        let cluster = try await EmbeddedCluster.acquire(dataDirectory: dataDirectory.path())
        let owner = try await PostgresConnection.connect(cluster.ownerConninfo)
        try await owner.execute(script: sql)
        try await cluster.release()
    }
}

extension RecordInterval {
    init(json: [String: Any]) throws {
        self.init(
            from: try milliseconds(json["from"]), until: try json["until"].flatMap { try optionalMilliseconds($0) },
            state: try #require((json["state"] as? String).flatMap { RecordState(rawValue: $0) }),
            givesAccess: try #require(json["gives_access"] as? Bool), productID: try textOrNothing(json["product_id"]),
            originalTransactionID: try textOrNothing(json["original_transaction_id"]),
            source: try recordSource(json["source"]))
    }
}

extension RecordAnswer {
    init(json: [String: Any]) throws {
        self.init(
            entitlement: try #require(json["id"] as? String), givesAccess: try #require(json["gives_access"] as? Bool),
            state: try #require((json["state"] as? String).flatMap { RecordState(rawValue: $0) }),
            since: try milliseconds(json["since"]),
            until: try json["until"].flatMap { try optionalMilliseconds($0) },
            productID: try textOrNothing(json["product_id"]),
            originalTransactionID: try textOrNothing(json["original_transaction_id"]),
            willRenew: json["will_renew"] as? Bool, source: try recordSource(json["source"]))
    }
}

/// The record has no text where the answer has `null`, as a grant's product.
private func textOrNothing(_ value: Any?) throws -> String {
    if value is NSNull { return "" }
    let text = try #require(value as? String)
    try #require(!text.isEmpty)
    return text
}

private func recordSource(_ value: Any?) throws -> RecordSource {
    try #require((value as? String).flatMap { RecordSource(rawValue: $0) })
}

func milliseconds(_ value: Any?) throws -> Int64 {
    let text = try #require(value as? String)
    return try #require(Timestamp(rfc3339: text)).milliseconds
}

private func optionalMilliseconds(_ value: Any) throws -> Int64? {
    value is NSNull ? nil : try milliseconds(value)
}
