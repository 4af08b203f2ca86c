import Foundation
import OpenSSLCrypto
import Synchronization

// The endpoints, each named after Apple's page about it.
extension SimulatedStoreAPI {
    /// How many entries a page of the store has.
    package static let pageSize = 20

    func route(_ request: Request) throws -> Response {
        switch (request.method, request.path.first, Array(request.path.dropFirst(2))) {
        case ("POST", "inApps", ["notifications", "history"]): return try notificationHistory(request)
        case ("POST", "inApps", ["notifications", "test"]): return try testNotification()
        case ("GET", "inApps", let path) where path.starts(with: ["notifications", "test"]) && path.count == 3:
            return try testStatus(path[2])
        case ("GET", "inApps", let path) where path.first == "subscriptions" && path.count == 2:
            return try statuses(of: path[1])
        case ("GET", "inApps", let path) where path.first == "history" && path.count == 2:
            return try history(of: path[1], request)
        case ("GET", "inApps", let path) where path.starts(with: ["refund", "lookup"]) && path.count == 3:
            return try refunds(of: path[2], request)
        case ("GET", "inApps", let path) where path.first == "lookup" && path.count == 2: return try order(path[1])
        case ("GET", "inApps", let path)
        where path.starts(with: ["transactions", "appTransactions"]) && path.count == 3:
            return try appTransaction(of: path[2])
        case ("GET", "inApps", let path) where path.first == "transactions" && path.count == 2:
            return try transaction(path[1])
        case ("PUT", "inApps", let path) where path.starts(with: ["transactions", "consumption"]) && path.count == 3:
            return try takeConsumption(of: path[2], request)
        case ("PUT", "inApps", let path) where path.first == "transactions" && path.last == "appAccountToken":
            return try setAppAccountToken(path[1], request)
        case ("PUT", "inApps", let path) where path.starts(with: ["subscriptions", "extend"]) && path.count == 3:
            return try extend(path[2], request)
        default: return try error(404, nil)
        }
    }

    var archive: StoreArchive { state.withLock { $0.archives[environment] } ?? StoreArchive() }

    // MARK: - Notifications

    private func notificationHistory(_ request: Request) throws -> Response {
        try count("notification_history")
        let body = (try? JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any]) ?? [:]
        guard let start = (body["startDate"] as? NSNumber)?.int64Value else { return try error(400, 4_000_015) }
        guard let end = (body["endDate"] as? NSNumber)?.int64Value else { return try error(400, 4_000_016) }
        guard start < end else { return try error(400, 4_000_013) }
        let kept = (environment == .production ? 180 : 30) * Span.day
        guard start >= now() - kept else { return try error(400, 4_000_012) }
        let transaction = body["transactionId"] as? String
        let type = body["notificationType"] as? String
        guard transaction == nil || type == nil else { return try error(400, 4_000_019) }
        let onlyFailures = body["onlyFailures"] as? Bool ?? false
        let (listsNothing, badInstants) = state.withLock { ($0.listsNothing, $0.badInstants) }
        let all = archive.sent.filter { sent in
            !listsNothing && (start..<end).contains(sent.instant) && sent.instant <= now()
                && (transaction.map { sent.transactionIDs.contains($0) } ?? true)
                && (type.map { sent.type == $0 } ?? true) && (!onlyFailures || sent.hasFailed)
        }.sorted { $0.instant < $1.instant }
        // The token is good for the same filters alone.
        let filters = Base64.encodeURL(SHA256.hash(request.body).prefix(6))
        var first = 0
        if let token = request.queried("paginationToken") {
            let parts = token.split(separator: ".")
            guard parts.count == 2, parts[0] == filters, let place = Int(parts[1]) else {
                return try error(400, 4_000_014)
            }
            first = place
        }
        let items = all.dropFirst(first).prefix(Self.pageSize)
        guard !items.contains(where: { badInstants.contains($0.instant) }) else { return try error(500, 5_000_000) }
        // Where it begins and what is asked for tell one page from another.
        state.withLock { $0.pages["\(filters).\(first)", default: 0] += 1 }
        let hasMore = first + items.count < all.count
        var answer: [String: PayloadValue] = [
            "notificationHistory": .array(
                items.map {
                    .object(["signedPayload": .string($0.payload), "sendAttempts": Self.list($0.course.attempts)])
                }),
            "hasMore": .boolean(hasMore),
        ]
        if hasMore { answer["paginationToken"] = .string("\(filters).\(first + items.count)") }
        return try document(answer)
    }

    private func testNotification() throws -> Response {
        try count("test_notification")
        let number = state.withLock {
            $0.testsAsked += 1
            return $0.testsAsked
        }
        let notification = StoreNotification(
            environment: environment, originalTransactionID: nil, signedDate: now(),
            payload: [
                "notificationType": .string("TEST"), "version": .string("2.0"), "signedDate": .integer(now()),
                "notificationUUID": .string(
                    "7e57\(String(repeating: "0", count: 4))-0000-4000-8000-\(String(format: "%012d", number))"),
                "data": .object(appData),
            ], transaction: nil, renewal: nil, appTransaction: nil, testimony: nil)
        let payload = try send(notification)
        let token = "test_\(number)"
        state.withLock { ($0.tests[token], $0.newestTest) = (payload, payload) }
        return try document(["testNotificationToken": .string(token)])
    }

    var appData: [String: PayloadValue] {
        var data: [String: PayloadValue] = [
            "environment": .string(environment.payloadName), "bundleId": .string(world.bundleID),
            "bundleVersion": .string("42"),
        ]
        if environment == .production { data["appAppleId"] = .integer(world.appAppleID) }
        return data
    }

    private func testStatus(_ token: String) throws -> Response {
        try count("test_notification_status")
        let test = state.withLock { state -> (payload: String, course: DeliveryCourse?)? in
            guard let payload = state.tests[token] else { return nil }
            return (payload, state.reportsAttempts ? state.archives[environment]?.course(of: payload) : nil)
        }
        guard let test else { return try error(404, 4_040_008) }
        let attempts =
            test.course?.attempts
            ?? [DeliveryCourse.Attempt(instant: now(), result: DeliveryAnswer.status(200).result)]
        // Nothing is known either before the first attempt.
        guard !attempts.isEmpty else { return try error(404, 4_040_008) }
        return try document(["signedPayload": .string(test.payload), "sendAttempts": Self.list(attempts)])
    }

    private static func list(_ attempts: [DeliveryCourse.Attempt]) -> PayloadValue {
        .array(
            attempts.map {
                .object(["attemptDate": .integer($0.instant), "sendAttemptResult": .string($0.result)])
            })
    }

    // MARK: - Transactions

    private func statuses(of id: String) throws -> Response {
        try count("subscription_statuses")
        let originals = archive.originals(ofCustomer: id).filter(\.value.isSubscription)
        guard !originals.isEmpty else { return try error(404, 4_040_010) }
        let entries = try originals.sorted { $0.key > $1.key }.map { original, known -> PayloadValue in
            var entry: [String: PayloadValue] = ["originalTransactionId": .string(original)]
            entry["status"] = known.status(at: now()).map { .integer($0) }
            entry["signedTransactionInfo"] = try known.last.map { .string(try signedNow($0)) }
            entry["signedRenewalInfo"] = try known.renewal.map { .string(try signedNow($0)) }
            return .object(entry)
        }
        return try document([
            "environment": .string(environment.payloadName), "bundleId": .string(world.bundleID),
            "data": .array([
                .object(["subscriptionGroupIdentifier": .string("1"), "lastTransactions": .array(entries)])
            ]),
        ])
    }

    /// The store signs whatever it is asked for anew; the date is that of the answer.
    private func signedNow(_ statement: StoreArchive.Statement) throws -> String {
        var payload = statement.payload
        payload["signedDate"] = .integer(now())
        return try authority.sign(.object(payload))
    }

    private func history(of id: String, _ request: Request) throws -> Response {
        try count("transaction_history")
        let all = archive.originals(ofCustomer: id).values.flatMap(\.purchases)
            .sorted { ($0.signedDate, $0.jws) < ($1.signedDate, $1.jws) }
        guard !all.isEmpty else { return try error(404, 4_040_010) }
        return try page(request.queried("sort") == "DESCENDING" ? all.reversed() : all, request)
    }

    private func refunds(of id: String, _ request: Request) throws -> Response {
        try count("refunds")
        let all = archive.originals(ofCustomer: id).values.flatMap(\.purchases)
            .filter { $0.payload["revocationDate"] != nil }
            .sorted { ($0.signedDate, $0.jws) < ($1.signedDate, $1.jws) }
        return try page(all, request)
    }

    private func page(_ all: [StoreArchive.Statement], _ request: Request) throws -> Response {
        var first = 0
        if let revision = request.queried("revision") {
            guard let place = Int(revision.dropFirst(4)), revision.hasPrefix("rev_") else {
                return try error(400, 4_000_005)
            }
            first = place
        }
        let items = all.dropFirst(first).prefix(Self.pageSize)
        return try document([
            "signedTransactions": .array(try items.map { .string(try signedNow($0)) }),
            "revision": .string("rev_\(first + items.count)"), "hasMore": .boolean(first + items.count < all.count),
            "environment": .string(environment.payloadName), "bundleId": .string(world.bundleID),
        ])
    }

    private func transaction(_ id: String) throws -> Response {
        try count("transaction")
        guard let statement = archive.transaction(id) else { return try error(404, 4_040_010) }
        return try document(["signedTransactionInfo": .string(try signedNow(statement))])
    }

    /// "Look Up Order ID": there are none in the sandbox.
    private func order(_ id: String) throws -> Response {
        try count("order")
        guard environment == .production else { return try error(404, nil) }
        let all = archive.originals.values.flatMap(\.transactions).filter { Self.orderID(of: $0.key) == id }
        return try document([
            "status": .integer(all.isEmpty ? 1 : 0),
            "signedTransactions": .array(
                try all.sorted { $0.key < $1.key }.map { .string(try signedNow($0.value)) }),
        ])
    }

    /// The number in the receipt that the store sends for a transaction; each is an order of its own here.
    package static func orderID(of transactionID: String) -> String {
        "M" + (UInt64(transactionID).map { String($0, radix: 36, uppercase: true) } ?? transactionID)
    }

    private func appTransaction(of id: String) throws -> Response {
        try count("app_transaction")
        let accounts = archive.originals(ofCustomer: id).values.compactMap(\.appTransactionID)
        guard let account = accounts.min() else { return try error(404, 4_040_019) }
        let signed = try authority.signAppTransaction(account, environment, world: world)
        return try document(["signedAppTransactionInfo": .string(signed)])
    }

    private func setAppAccountToken(_ original: String, _ request: Request) throws -> Response {
        try count("app_account_token")
        let body = try? JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any]
        guard let token = body?["appAccountToken"] as? String, UUID(uuidString: token) != nil else {
            return try error(400, 4_000_183)
        }
        guard archive.originals[original] != nil else { return try error(404, 4_040_005) }
        state.withLock { $0.accountTokens[original] = token }
        return Response(status: 200)
    }

    func document(_ members: [String: PayloadValue]) throws -> Response {
        Response(
            status: 200, headers: [("Content-Type", "application/json")],
            body: try PayloadValue.object(members).encoded())
    }
}
