import AppStorePayloads
import AppStoreServer
import EntitlementCore
import Foundation
import OpenSSLCrypto
import StoreSimulator
import Testing

@Suite("Calls of the App Store Server API", .timeLimit(.minutes(2)))
struct StoreAPICallTests {
    @Test("a token names app, key and issuer, is dated a minute back, and is signed anew for each request")
    func token() throws {
        let key = try PrivateKey.generate(.p256)
        let credentials = StoreAPICredentials(issuerID: "i", keyID: "K", bundleID: "com.example", key: key)
        let token = try credentials.token(now: Timestamp(milliseconds: 1_790_000_000_999))
        let parts = token.split(separator: ".").map(String.init)
        #expect(
            String(decoding: try #require(Base64.decodeURL(parts[0])), as: UTF8.self)
                == #"{"alg":"ES256","kid":"K","typ":"JWT"}"#)
        #expect(
            String(decoding: try #require(Base64.decodeURL(parts[1])), as: UTF8.self)
                == #"{"aud":"appstoreconnect-v1","bid":"com.example","exp":1790000240,"iat":1789999940,"iss":"i"}"#)
        let signature = try #require(Base64.decodeURL(parts[2]))
        #expect(key.publicKey.isValidES256(signature: signature, message: Array("\(parts[0]).\(parts[1])".utf8)))
        #expect(try credentials.token(now: Timestamp(milliseconds: 1_790_000_000_999)) != token)
    }

    @Test("what an id holds cannot change the path, and a request asks exactly what Apple's page says")
    func targets() throws {
        let hostile = "1/../../x?y=1&z#%2F ü"
        let request = StoreAPICall.transaction(hostile).request
        #expect(request.target == "/inApps/v1/transactions/1%2F..%2F..%2Fx%3Fy%3D1%26z%23%252F%20%C3%BC")
        #expect(
            StoreAPICall.transactionHistory(of: "7", revision: "a b").request.target
                == "/inApps/v2/history/7?sort=ASCENDING&revision=a%20b")
        let history = try StoreAPICall.notifications(
            from: Timestamp(milliseconds: 5), until: Timestamp(milliseconds: 9), .failures, paginationToken: "t"
        ).request
        #expect(history.target == "/inApps/v1/notifications/history?paginationToken=t")
        #expect(
            history.body.map { String(decoding: $0, as: UTF8.self) }
                == #"{"endDate":9,"onlyFailures":true,"startDate":5}"#)
        #expect(!StoreAPICall.testNotification.request.isRepeatable)
    }

    @Test("pages are turned to the end, and bring every notification that was sent, as it was signed", arguments: 1...3)
    func pages(seed: UInt64) async throws {
        let rig = try StoreAPIRig()
        defer { Task { await rig.stop() } }
        let life = StoreLife.random(seed: seed, customers: 6)
        let production = life.notifications.filter { $0.environment == .production }
        let last = try #require(production.map(\.signedDate).max())
        let sent = try production.map { try rig.store.send($0) }
        try #require(sent.count > 2 * SimulatedStoreAPI.pageSize)
        // The life must lie within what the store keeps.
        rig.clock.set(last)
        let start = Timestamp(milliseconds: last - 180 * 86_400_000)
        let expected = zip(production, sent).filter { $0.0.signedDate >= start.milliseconds }.map(\.1)
        var seen: [String] = []
        var token: String?
        repeat {
            let page = try await rig.client.send(
                .notifications(from: start, until: Timestamp(milliseconds: last + 1), paginationToken: token),
                in: .production)
            #expect(page.items.count <= SimulatedStoreAPI.pageSize)
            seen += page.items.compactMap(\.payload?.compact)
            token = page.hasMore ? page.paginationToken : nil
        } while token != nil
        #expect(seen.count == expected.count && Set(seen) == Set(expected), "seed \(seed)")
    }

    @Test("statuses, history, refunds, transactions and the app's own, of whoever any id names")
    func customers() async throws {
        let rig = try StoreAPIRig()
        defer { Task { await rig.stop() } }
        let life = StoreLife.random(seed: 4, customers: 8)
        for notification in life.notifications { try rig.store.send(notification) }
        let some = try #require(
            life.notifications.first {
                $0.renewal != nil && $0.transaction?["appTransactionId"] != nil && $0.environment == .production
            })
        guard case .string(let id)? = some.transaction?["transactionId"],
            case .string(let account)? = some.transaction?["appTransactionId"]
        else { throw TestError("no id") }
        for name in [id, try #require(some.originalTransactionID), account] {
            let statuses = try await rig.client.send(.subscriptionStatuses(of: name), in: .production)
            #expect(statuses.subscriptions.contains { $0.originalTransactionID == some.originalTransactionID })
            #expect(statuses.subscriptions.allSatisfy { $0.transaction != nil && $0.status != nil })
        }
        let one = try await rig.client.send(.transaction(id), in: .production).transaction
        let history = try await rig.client.send(.transactionHistory(of: id), in: .production)
        // The store signs each answer anew.
        func named(_ statement: UnverifiedStatement) throws -> String? {
            try JSONObject(parsing: UnverifiedJWS(Array(statement.compact.utf8)).payload)["transactionId"]?.string
        }
        #expect(try named(one) == id && history.transactions.map { try named($0) }.contains(id))
        _ = try await rig.client.send(.refunds(of: id), in: .production)
        #expect(
            try await rig.client.send(.appTransaction(of: id), in: .production).appTransaction.compact.hasPrefix("ey"))
        let error = await #expect(throws: StoreAPIError.self) {
            _ = try await rig.client.send(.transaction("none"), in: .production)
        }
        #expect(error?.kind == .notFound && error?.code == 4_040_010 && error?.isPassing == false)
    }

    @Test(
        "of the statuses any member may be left out, but not all of them",
        arguments: [
            (#"{"environment":"Production"}"#, 0), (#"{"bundleId":"com.example"}"#, 0), (#"{"data":[]}"#, 0),
            (#"{"data":[{"subscriptionGroupIdentifier":"1"},{"lastTransactions":[{"status":1}]}]}"#, 1),
            ("{}", nil), (#"{"message":"hello"}"#, nil),
        ] as [(String, Int?)])
    func sparseStatuses(answer: String, subscriptions: Int?) throws {
        let decoded = try? JSONDecoder().decode(SubscriptionStatuses.self, from: Data(answer.utf8))
        #expect(decoded?.subscriptions.count == subscriptions)
    }

    @Test("a test notification is asked for, and its fate")
    func testNotification() async throws {
        let rig = try StoreAPIRig(environment: .sandbox)
        defer { Task { await rig.stop() } }
        let token = try await rig.client.send(.testNotification, in: .sandbox).token
        let fate = try await rig.client.send(.testNotificationStatus(token), in: .sandbox)
        #expect(fate.sendAttempts?.first?.result == "SUCCESS")
        #expect(rig.store.count(of: "test_notification") == 1)
    }
}

struct TestError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
