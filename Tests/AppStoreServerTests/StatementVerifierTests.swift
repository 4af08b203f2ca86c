import AppStorePayloads
import EntitlementCore
import OpenSSLCrypto
import Testing

@testable import AppStoreServer

@Suite("Statements that a device posts")
struct StatementVerifierTests {
    let rig: StatementRig

    init() throws { rig = try StatementRig() }

    @Test("a transaction is its app, its environment, what it says and its evidence")
    func transaction() throws {
        let compact = try rig.store.sign(text(StatementKind.transaction.payload()))
        let verified = try rig.verifier.transaction(compact, now: present)
        #expect(verified.environment == .production)
        #expect(verified.bundleID == "com.example.app")
        #expect(verified.payload.transactionID == "200")
        #expect(verified.payload.originalTransactionID == "100")
        #expect(verified.payload.appAccountToken == "7e3fb20b-4cdb-47cc-936d-99d65f608138")
        #expect(verified.signedDate?.milliseconds == Instant.signed - 1)
        #expect(!verified.isFuture)
        #expect(verified.evidence == Array(compact.utf8))
        #expect(verified.payloadHash.bytes == SHA256.hash(try UnverifiedJWS(compact).payload))
    }

    @Test("renewal information is of an environment, and of no app")
    func renewal() throws {
        var payload = try StatementKind.renewal.payload()
        payload["isInBillingRetryPeriod"] = true
        let compact = try rig.store.sign(text(payload))
        let verified = try rig.verifier.renewal(compact, now: present)
        #expect(verified.environment == .production)
        #expect(verified.payload.originalTransactionID == "100")
        #expect(verified.payload.isInBillingRetry)
        #expect(verified.signedDate?.milliseconds == Instant.signed - 2)
        #expect(verified.evidence == Array(compact.utf8))
        #expect(verified.payloadHash.bytes == SHA256.hash(try UnverifiedJWS(compact).payload))
    }

    @Test("an app transaction is dated by its receipt's creation, and may lack the app transaction id")
    func appTransaction() throws {
        for id in ["704000001", nil] {
            var payload = try StatementKind.appTransaction.payload()
            payload["appTransactionId"] = id
            let compact = try rig.store.sign(text(payload))
            let verified = try rig.verifier.appTransaction(compact, now: present)
            #expect(verified.environment == .production)
            #expect(verified.bundleID == "com.example.app")
            #expect(verified.payload.appTransactionID == id)
            #expect(verified.signedDate?.milliseconds == Instant.signed - 3)
            #expect(verified.evidence == Array(compact.utf8))
            #expect(verified.payloadHash.bytes == SHA256.hash(try UnverifiedJWS(compact).payload))
        }
    }

    @Test("the same transaction has the same hash in a notification and on a device")
    func sameHash() throws {
        let notifications = NotificationVerifier(jws: try rig.store.verifier(), apps: [exampleApp])
        let draft = NotificationDraft()
        let notified = try notifications.verify(signedPayload: draft.signed(by: rig.store), now: present)
        let transaction = try rig.verifier.transaction(
            rig.store.sign(text(try #require(draft.transaction))), now: present)
        let renewal = try rig.verifier.renewal(rig.store.sign(text(try #require(draft.renewal))), now: present)
        #expect(notified.fact.transaction?.payloadHash == transaction.payloadHash)
        #expect(notified.fact.renewal?.payloadHash == renewal.payloadHash)
    }

    @Test("in the sandbox an app transaction needs no number of the app", arguments: StatementKind.places)
    func sandbox(kind: StatementKind) throws {
        var payload = try kind.payload()
        payload[kind.environmentField] = "Sandbox"
        payload["appAppleId"] = nil
        #expect(try rig.refusal(of: payload, as: kind) == nil)
        let sandboxOnly = AppBinding(bundleID: "com.example.app", appAppleID: nil, environments: [.sandbox])
        #expect(try StatementRig(apps: [sandboxOnly]).refusal(of: payload, as: kind) == nil)
    }

    @Test("a date ahead of the clock by more than a minute is in the future")
    func future() throws {
        func isFuture(_ kind: StatementKind, _ date: Int64?) throws -> Bool {
            var payload = try kind.payload()
            payload[kind.dateField] = date
            let compact = try rig.store.sign(text(payload))
            return switch kind {
            case .transaction: try rig.verifier.transaction(compact, now: present).isFuture
            case .renewal: try rig.verifier.renewal(compact, now: present).isFuture
            case .appTransaction, .notification: try rig.verifier.appTransaction(compact, now: present).isFuture
            }
        }
        for kind in StatementKind.places {
            #expect(try !isFuture(kind, nil), "\(kind)")
            #expect(try !isFuture(kind, present.milliseconds + 60_000), "\(kind)")
            #expect(try isFuture(kind, present.milliseconds + 60_001), "\(kind)")
        }
    }

    @Test("the certificates must have been valid when it was signed, or now where it bears no date")
    func validity() throws {
        let afterwards = Timestamp(milliseconds: Instant.end + Instant.day)
        for kind in StatementKind.places {
            var payload = try kind.payload()
            let dated = try rig.store.sign(text(payload))
            #expect(rig.refusal(of: dated, as: kind, now: afterwards) == nil, "\(kind)")
            payload[kind.dateField] = Instant.end + Instant.day
            let late = try rig.store.sign(text(payload))
            #expect(rig.refusal(of: late, as: kind)?.code == .untrustedSignature, "\(kind)")
            payload[kind.dateField] = nil
            let undated = try rig.store.sign(text(payload))
            #expect(rig.refusal(of: undated, as: kind) == nil, "\(kind)")
            #expect(rig.refusal(of: undated, as: kind, now: afterwards)?.code == .untrustedSignature, "\(kind)")
        }
    }

    @Test("unknown fields and values are no reason to refuse", arguments: StatementKind.places)
    func unknownFields(kind: StatementKind) throws {
        var payload = try kind.payload()
        payload["somethingNew"] = ["a": [1, 2]]
        payload["type"] = "Time-Share"
        #expect(try rig.refusal(of: payload, as: kind) == nil)
    }

    @Test("an app is served in all environments that any of its bindings names")
    func environments() throws {
        let rig = try StatementRig(apps: [
            AppBinding(bundleID: "a", appAppleID: 1, environments: [.production]),
            AppBinding(bundleID: "a", appAppleID: nil, environments: [.sandbox]),
            AppBinding(bundleID: "b", appAppleID: nil, environments: [.sandbox]),
            AppBinding(bundleID: "c", appAppleID: nil, environments: []),
        ])
        #expect(rig.verifier.environments(of: "a") == [.production, .sandbox])
        #expect(rig.verifier.environments(of: "b") == [.sandbox])
        #expect(rig.verifier.environments(of: "c") == [])
        #expect(rig.verifier.environments(of: "A") == nil)
        #expect(rig.verifier.environments(of: "") == nil)
    }
}
