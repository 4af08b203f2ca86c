import EntitlementCore
import Foundation
import StoreSimulator
import Testing

/// Which statements a service was sent, by whatever way.
struct Heard {
    private var statements: Set<String> = []

    mutating func insert(_ testimony: Testimony) { statements.insert(Self.name(testimony)) }

    func contains(_ testimony: Testimony) -> Bool { statements.contains(Self.name(testimony)) }

    private static func name(_ testimony: Testimony) -> String {
        let key = testimony.key
        return "\(key.environment) \(key.originalTransactionID) \(testimony.payment) \(testimony.signedDate)"
    }
}

/// What a device's post must come to.
struct PostExpectation {
    let post: OwnershipStep.Post
    let receptions: [Reception]
    let world: StoreWorld
    /// After the post.
    let witness: OwnershipWitness
    /// Before the post.
    let heard: Heard

    func hold(_ answer: HTTPClient.Answer, _ context: String) throws {
        let parts = ["proof", "results", "finish"].map { canonical(answer.json[$0]) }.joined(separator: " ")
        let context = "\(context): \(receptions.map(\.rawValue)), and the answer is \(parts)"
        #expect(answer.json["proof"] as? String == proof, "\(context)")
        let results = try #require(answer.json["results"] as? [[String: Any]], "\(context)")
        try #require(results.count == receptions.count && post.statements.count == receptions.count, "\(context)")
        let finish = Set(try #require(answer.json["finish"] as? [String], "\(context)"))
        for (index, (statement, reception)) in zip(post.statements, receptions).enumerated() {
            let id = try statement.transactionID
            #expect(results[index]["transaction_id"] as? String == id, "\(context)")
            let status = results[index]["status"] as? String
            #expect(try statuses(statement, reception, index).contains(#require(status)), "\(id) \(context)")
            #expect(
                results[index]["code"] as? String == (status == "conflict" ? "ownership_conflict" : nil), "\(context)")
            #expect(finish.contains(id) == mayFinish(statement, reception), "finishing \(id) \(context)")
        }
        #expect(finish.isSubset(of: try post.statements.map { try $0.transactionID }), "\(context)")
    }

    private var proof: String {
        switch post.proof {
        case .none: "none"
        case .secretKey: "secret_key"
        case .customerToken: "customer_token"
        case .appTransaction: receptions.contains(.unproven) ? "none" : "app_transaction"
        }
    }

    /// A statement may be new and yet say nothing new, being older than what is known.
    private func statuses(_ statement: StoreStatement, _ reception: Reception, _ index: Int) -> Set<String> {
        switch reception {
        case .conflict, .knownConflict: return ["conflict"]
        case .claimed: return ["recorded"]
        case .own, .unproven:
            // Two at once of what was nobody's are one claim.
            let isClaimed = zip(post.statements, receptions).prefix(index).contains {
                $0.testimony.key == statement.testimony.key && $1 == .claimed
            }
            if isClaimed { return ["recorded", "known"] }
            return heard.contains(statement.testimony) ? ["known"] : ["recorded", "known"]
        }
    }

    /// What is the customer's, or at least somebody's whom nobody contradicts, or gives nothing by the catalog.
    private func mayFinish(_ statement: StoreStatement, _ reception: Reception) -> Bool {
        switch reception {
        case .own, .claimed: return true
        case .conflict, .knownConflict: return givesNothing(statement)
        case .unproven:
            let testimony = statement.testimony
            return witness.holder(of: testimony.key, payment: testimony.payment) != nil || givesNothing(statement)
        }
    }

    private func givesNothing(_ statement: StoreStatement) -> Bool {
        guard case .string(let product) = statement.transaction["productId"] else { return false }
        return world.mappings.contains { $0.productID == product && $0.entitlements.isEmpty }
    }
}

extension StoreStatement {
    var transactionID: String {
        get throws {
            guard case .string(let id) = transaction["transactionId"] else {
                throw MisledDriver(context: "a statement without a transaction id: \(transaction)")
            }
            return id
        }
    }
}

extension Record {
    /// Whose a payment is now; nil while it is nobody's.
    fileprivate func owner(of chapter: Chapter, in key: SimulatedOriginalKey) -> String? {
        let own = chapter.owner.map { CustomerKey(key.environment, $0) } ?? ownership.claims[key]
        return (ownership.transferredHolder(of: key) ?? own).map { ownership.customer($0).customerID }
    }

    /// What the store names no end for has a period only where the catalog names a duration.
    fileprivate func hasKnownLength(_ chapter: Chapter) -> Bool {
        guard chapter.paid == .catalogDuration else { return true }
        return world.mappings.contains { $0.productID == chapter.productID && $0.duration != nil }
    }
}

// The whole world, against the record.
extension OwnershipDriver {
    /// Everybody, everything, at every boundary; then the same again from other views.
    func expectRecord(limit: Int) async throws {
        let stranger = CustomerKey(world.names.first?.environment ?? .production, "c-\(name)-who-never-was")
        for customer in world.names + [stranger] {
            try await service.admin.expectRecord(
                witness.record.customer(customer), of: customer, alsoAt: recordedInstants(limit: limit), limit: limit,
                name)
        }
        try await expectOwners()
        try await expectConflicts()
        try await expectExplanations()
        try await expectKeptAnswers()
    }

    /// When something was transferred or granted, and the instants next to it.
    private func recordedInstants(limit: Int) -> [Int64] {
        let all = instants.sorted().flatMap { [$0 - 1, $0, $0 + 1] }
        return stride(from: 0, to: all.count, by: all.count / max(limit / 2, 1) + 1).map { all[$0] }
    }

    /// While the store's side is known already: those whom the step names, and somebody else.
    func expectRecordOfSome(after step: OwnershipStep) async throws {
        if case .deliver = step.deed { return }
        let known = Set(witness.knownOriginals)
        let context = "\(name), after step \(step.number)"
        for customer in step.names + [world.names[step.number % world.names.count]] {
            // What no notification tells of is not known before a device posts it.
            guard known.isSuperset(of: witness.record.originals(of: customer)) else { continue }
            let recent = instants.max().map { [$0 - 1, $0, $0 + 1] } ?? []
            try await service.admin.expectRecord(
                witness.record.customer(customer), of: customer, alsoAt: recent, limit: 3, context)
        }
    }

    /// Periods and transactions have the owners of the record.
    private func expectOwners() async throws {
        let record = witness.record
        for (key, story) in record.stories.sorted(by: { $0.key < $1.key }) {
            let context = "\(name), \(key.environment) \(key.originalTransactionID)"
            let answer = try await service.admin.send(
                "GET", "/v1/subscriptions/\(key.originalTransactionID)",
                query: ["environment": key.environment.rawValue])
            let periods = try #require(answer.json["periods"] as? [[String: Any]], "\(context): \(answer.text)")
            let told = try periods.map {
                "\(try milliseconds($0["starts_at"])) \($0["product_id"] as? String ?? "") "
                    + ($0["customer_id"] as? String ?? "nobody")
            }
            let chapters = story.chapters.sorted { $0.begin < $1.begin }
            let expected = chapters.filter { record.hasKnownLength($0) }.map {
                "\($0.begin) \($0.productID) \(record.owner(of: $0, in: key) ?? "nobody")"
            }
            try #require(told == expected, "\(context): \(answer.text)")
            let isClaimed = chapters.last.flatMap { record.owner(of: $0, in: key) } != nil
            #expect(answer.json["claimed"] as? Bool == isClaimed, "\(context): \(answer.text)")
        }
        let posted = world.steps.flatMap { step -> [StoreStatement] in
            if case .post(let post) = step.deed { post.statements } else { [] }
        }
        var asked: Set<String> = []
        for statement in world.notifications.compactMap(\.statement) + posted {
            let (id, key) = (try statement.transactionID, statement.testimony.key)
            guard asked.insert("\(key.environment) \(id)").inserted else { continue }
            let chapters = record.stories[key]?.chapters ?? []
            let meant = id == key.originalTransactionID ? chapters : [chapters[statement.testimony.payment]]
            let answer = try await service.admin.send("GET", "/v1/customers", query: ["transaction_id": id])
            let items = try #require(answer.json["items"] as? [[String: Any]], "\(name), \(id): \(answer.text)")
            let told = items.filter {
                $0["environment"] as? String == key.environment.rawValue
                    && $0["original_transaction_id"] as? String == key.originalTransactionID
            }.compactMap { $0["customer_id"] as? String }
            let owners = Set(meant.compactMap { record.owner(of: $0, in: key) })
            #expect(told == owners.sorted(), "\(name), transaction \(id): \(answer.text)")
        }
    }

    /// Each contradiction is an event, once, under the name by which it was claimed.
    private func expectConflicts() async throws {
        let events = try await service.admin.events(after: begin)
        let told = events.filter { $0["type"] as? String == "ownership_conflict" }.map {
            "\($0["environment"] ?? "") \($0["original_transaction_id"] ?? "") \($0["customer_id"] ?? "")"
        }
        let expected = witness.record.ownership.conflicts.map {
            "\($0.original.environment) \($0.original.originalTransactionID) \($0.claimant.customerID)"
        }
        #expect(told.sorted() == expected.sorted(), "\(name)")
    }

    /// What is explained is what is answered.
    private func expectExplanations() async throws {
        for customer in world.names.prefix(3) {
            let boundaries = witness.record.boundaryInstants(customer)
            guard !boundaries.isEmpty else { continue }
            for at in [boundaries[boundaries.count / 2], boundaries[boundaries.count - 1]] {
                let query = ["environment": customer.environment.rawValue, "at": "\(Timestamp(milliseconds: at))"]
                let path = "/v1/customers/\(customer.customerID)"
                let read = try await service.admin.send("GET", "\(path)/entitlements", query: query)
                let told = try await service.admin.send("GET", "\(path)/explain", query: query)
                let entitlements = try #require(read.json["entitlements"] as? [[String: Any]], "\(name): \(read.text)")
                let explained = try #require(told.json["entitlements"] as? [[String: Any]], "\(name): \(told.text)")
                for entitlement in entitlements {
                    let decision =
                        explained.first { $0["id"] as? String == entitlement["id"] as? String }?["decision"]
                        as? [String: Any]
                    #expect(
                        decision?["gives_access"] as? Bool == entitlement["gives_access"] as? Bool
                            && decision?["state"] as? String == entitlement["state"] as? String,
                        "\(name), \(customer) at \(at): \(told.text) beside \(read.text)")
                }
            }
        }
    }

    /// Everybody's answers as they are now.
    func answers() async throws -> [KeptAnswer] {
        var kept: [KeptAnswer] = []
        for customer in world.names {
            let query = ["environment": customer.environment.rawValue]
            let at = instants.max() ?? witness.record.boundaryInstants(customer).last ?? world.world.start
            let path = "/v1/customers/\(customer.customerID)"
            kept.append(try await KeptAnswer("\(path)/timeline", query, service.admin, name))
            kept.append(
                try await KeptAnswer(
                    "\(path)/entitlements", query.merging(["at": "\(Timestamp(milliseconds: at))"]) { $1 },
                    service.admin, name))
        }
        for key in witness.record.stories.keys.sorted() {
            kept.append(
                try await KeptAnswer(
                    "/v1/subscriptions/\(key.originalTransactionID)",
                    ["environment": key.environment.rawValue, "at": "\(Timestamp(milliseconds: world.world.start))"],
                    service.admin, name))
        }
        return kept
    }
}
