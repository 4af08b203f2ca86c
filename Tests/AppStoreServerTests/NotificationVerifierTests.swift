import AppStorePayloads
import EntitlementCore
import OpenSSLCrypto
import Testing

@testable import AppStoreServer

@Suite("Verified notifications")
struct NotificationVerifierTests {
    let rig: NotificationRig

    init() throws { rig = try NotificationRig() }

    @Test("a notification is its label, its facts and its evidence")
    func wholeNotification() throws {
        let compact = try NotificationDraft().signed(by: rig.store)
        let verified = try rig.verifier.verify(signedPayload: compact, now: present)
        #expect(verified.environment == .production)
        #expect(verified.bundleID == "com.example.app")
        #expect(verified.type == "DID_RENEW")
        #expect(verified.subtype == nil)
        #expect(verified.uuid == "3838df56-31ab-4e2d-9f44-9b2b3b6b9a11")
        #expect(verified.eventLabel == "renewed")
        #expect(verified.signedDate?.milliseconds == Instant.signed)
        #expect(verified.evidence == Array(compact.utf8))
        #expect(verified.payloadHash.bytes == SHA256.hash(try UnverifiedJWS(compact).payload))
        #expect(verified.identities == ["7e3fb20b-4cdb-47cc-936d-99d65f608138", "apple:704000001"])
        #expect(verified.remarks.isEmpty)

        let fact = verified.fact
        #expect(fact.payloadHash == verified.payloadHash)
        #expect(fact.bundleID == "com.example.app")
        #expect(fact.uuid == verified.uuid)
        let transaction = try #require(fact.transaction)
        #expect(transaction.transactionID == "200")
        #expect(transaction.signedDate?.milliseconds == Instant.signed - 1)
        #expect(transaction.accountToken == IdentityRef(0))
        #expect(transaction.appTransaction == IdentityRef(1))
        let renewal = try #require(fact.renewal)
        #expect(renewal.originalTransactionID == "100")
        #expect(renewal.signedDate?.milliseconds == Instant.signed - 2)
        #expect(Set([fact.payloadHash, transaction.payloadHash, renewal.payloadHash]).count == 3)
    }

    @Test("a statement's hash is the same in whatever notification it comes")
    func statementHashes() throws {
        let first = try rig.verify(NotificationDraft())
        var draft = NotificationDraft()
        draft.notification["notificationUUID"] = "another"
        let second = try rig.verify(draft)
        #expect(first.payloadHash != second.payloadHash)
        #expect(first.fact.transaction == second.fact.transaction)
        #expect(first.fact.renewal == second.fact.renewal)
    }

    @Test("a payload signed anew is the same notification with other evidence")
    func signedAnew() throws {
        let payload = try text(NotificationDraft().payload(signedBy: rig.store))
        let first = try rig.verifier.verify(signedPayload: rig.store.sign(payload), now: present)
        let second = try rig.verifier.verify(signedPayload: rig.store.sign(payload), now: present)
        #expect(first.evidence != second.evidence)
        #expect(first.payloadHash == second.payloadHash)
        #expect(first.fact == second.fact)
    }

    @Test("every type and subtype is accepted, known or not, and its transaction is folded like any other")
    func everyType() throws {
        let types = NotificationType.allCases.map(\.rawValue) + ["NEW_THING"]
        let known = try #require(try rig.verify(NotificationDraft()).fact.transaction)
        for type in types {
            for subtype in [nil, "UPGRADE", "NEW_WAY"] {
                var draft = NotificationDraft()
                draft.notification["notificationType"] = type
                draft.notification["subtype"] = subtype
                let verified = try rig.verify(draft)
                #expect(verified.eventLabel == eventLabel(type: type, subtype: subtype))
                #expect(verified.fact.transaction == known, "\(type)")
                #expect(verified.remarks.contains("unknown_type:NEW_THING") == (type == "NEW_THING"))
                #expect(verified.remarks.contains("unknown_subtype:NEW_WAY") == (subtype == "NEW_WAY"))
            }
        }
    }

    @Test("a notification in the sandbox needs no number of the app")
    func sandbox() throws {
        let verified = try rig.verify(.sandbox)
        #expect(verified.environment == .sandbox)
        #expect(verified.fact.transaction != nil)
    }

    @Test("data without signed parts states nothing, as in a test notification")
    func testNotification() throws {
        var draft = NotificationDraft()
        draft.notification["notificationType"] = "TEST"
        draft.transaction = nil
        draft.renewal = nil
        let verified = try rig.verify(draft)
        #expect(verified.eventLabel == "test")
        #expect(verified.fact.transaction == nil)
        #expect(verified.fact.renewal == nil)
        #expect(verified.identities.isEmpty)
    }

    @Test("a summary, an external purchase token and app data are accepted")
    func otherContainers() throws {
        for (name, environment, word) in [
            ("summary", StoreEnvironment.production, "Production"), ("summary", .sandbox, "Sandbox"),
            ("appData", .production, "Production"),
        ] {
            var draft = NotificationDraft()
            draft.containerName = name
            draft.transaction = nil
            draft.renewal = nil
            draft.container["environment"] = word
            #expect(try rig.verify(draft).environment == environment)
        }
        for (id, environment) in [("x", StoreEnvironment.production), ("SANDBOX_x", .sandbox)] {
            var draft = NotificationDraft()
            draft.containerName = "externalPurchaseToken"
            draft.transaction = nil
            draft.renewal = nil
            draft.container["environment"] = nil
            draft.container["externalPurchaseId"] = id
            let verified = try rig.verify(draft)
            #expect(verified.environment == environment)
            #expect(verified.remarks.isEmpty)
        }
        let consent = try rig.verify(.consent)
        #expect(consent.eventLabel == "consent_rescinded")
        #expect(consent.identities == ["apple:704000001"] && consent.fact.appTransaction == IdentityRef(0))
    }

    @Test("each part is held to the certificates of its own date, else the notification's, else now")
    func datesOfValidity() throws {
        let late = Timestamp(milliseconds: Instant.end + Instant.day)
        #expect(throws: Never.self) { try rig.verify(NotificationDraft(), now: late) }

        var undated = NotificationDraft()
        undated.transaction?["signedDate"] = nil
        undated.renewal?["signedDate"] = nil
        let verified = try rig.verify(undated, now: late)
        #expect(verified.fact.transaction?.signedDate?.milliseconds == Instant.signed)
        #expect(verified.fact.renewal?.signedDate?.milliseconds == Instant.signed)

        undated.notification["signedDate"] = nil
        #expect(throws: Never.self) { try rig.verify(undated) }
        #expect(throws: NotificationRefusal.self) { try rig.verify(undated, now: late) }
        #expect(try rig.verify(undated).fact.transaction?.signedDate == nil)

        for part in ["transaction", "renewal", "notification", "appTransaction"] {
            var expired = part == "appTransaction" ? NotificationDraft.consent : NotificationDraft()
            switch part {
            case "transaction": expired.transaction?["signedDate"] = Instant.end
            case "renewal": expired.renewal?["signedDate"] = Instant.end
            case "notification": expired.notification["signedDate"] = Instant.end
            default: expired.appTransaction?["receiptCreationDate"] = Instant.end
            }
            #expect(try rig.refusal(of: expired)?.code == .untrustedSignature, "\(part)")
        }
    }

    @Test("a date more than a minute ahead of our clock is remarked on, whichever part bears it")
    func futureDates() throws {
        let spoilers: [(inout NotificationDraft, Int64) -> Void] = [
            { $0.notification["signedDate"] = $1 }, { $0.transaction?["signedDate"] = $1 },
            { $0.renewal?["signedDate"] = $1 },
        ]
        for (index, spoil) in spoilers.enumerated() {
            for (ahead, expected) in [(60_000 as Int64, [String]()), (60_001, ["future_signed_date"])] {
                var draft = NotificationDraft()
                spoil(&draft, present.milliseconds + ahead)
                #expect(try rig.verify(draft).remarks == expected, "part \(index), \(ahead) ms ahead")
            }
        }
    }

    @Test("a grace notification without a grace end is remarked on, and reads as such")
    func graceWithoutEnd() throws {
        var draft = NotificationDraft()
        draft.notification["notificationType"] = "DID_FAIL_TO_RENEW"
        draft.notification["subtype"] = "GRACE_PERIOD"
        let without = try rig.verify(draft)
        #expect(without.remarks == ["grace_without_end"])
        #expect(without.fact.renewal?.isGraceWithoutEnd == true)
        draft.renewal?["gracePeriodExpiresDate"] = Instant.signed + Instant.day
        let with = try rig.verify(draft)
        #expect(with.remarks.isEmpty)
        #expect(with.fact.renewal?.isGraceWithoutEnd == false)
        draft.renewal = nil
        #expect(try rig.verify(draft).remarks == ["grace_without_end"])
    }

    @Test(
        "a refund or revocation whose transaction names no date of it is remarked on, and takes nothing back",
        arguments: ["REFUND", "REVOKE"])
    func revocationWithoutDate(type: String) throws {
        var draft = NotificationDraft()
        draft.notification["notificationType"] = type
        // Of single items, as Advanced Commerce sells them, the dates stand elsewhere.
        draft.transaction?["advancedCommerceInfo"] = ["items": [["SKU": "a", "revocationDate": Instant.signed]]]
        let without = try rig.verify(draft)
        #expect(without.remarks == ["revocation_without_date"])
        #expect(without.fact.transaction?.revocation == nil)
        draft.transaction?["revocationDate"] = Instant.signed
        #expect(try rig.verify(draft).remarks.isEmpty)
        draft.transaction = nil
        draft.renewal = nil
        #expect(try rig.verify(draft).remarks == ["revocation_without_date"])
    }

    @Test("the remarks of all parts come together")
    func remarks() throws {
        var draft = NotificationDraft()
        draft.notification["newer"] = 1
        draft.container["newer"] = 1
        draft.transaction?["newer"] = 1
        draft.renewal?["newer"] = 1
        #expect(
            try rig.verify(draft).remarks == [
                "unknown_field:data.newer", "unknown_field:newer", "unknown_field:renewal.newer",
                "unknown_field:transaction.newer",
            ])
        draft = .consent
        draft.appTransaction?["newer"] = 1
        #expect(try rig.verify(draft).remarks == ["unknown_field:app_transaction.newer"])
    }

    @Test("one verifier serves many threads at once")
    func threads() async throws {
        let compact = try NotificationDraft().signed(by: rig.store)
        let verifier = rig.verifier
        let facts = try await withThrowingTaskGroup(of: NotificationFact.self) { group in
            for _ in 0..<64 {
                group.addTask { try verifier.verify(signedPayload: compact, now: present).fact }
            }
            return try await group.reduce(into: Set<NotificationFact>()) { $0.insert($1) }
        }
        #expect(facts.count == 1)
    }

    @Test("a verified notification carries what it was taken apart into, its statements at their places")
    func takenApart() throws {
        let rig = try NotificationRig()
        for draft in [NotificationDraft(), .consent] {
            let signed = try draft.signed(by: rig.store)
            let parts = try rig.verifier.verify(signedPayload: signed, now: present).evidenceParts
            #expect(parts.embedded.count == (draft.appTransaction == nil ? 2 : 1))
            for (whole, compact) in [(parts, Array(signed.utf8))]
                + parts.embedded.map({ ($0.parts, Array(parts.payload[$0.range])) })
            {
                let pieces = compact.split(separator: UInt8(ascii: ".")).map(Array.init)
                #expect(whole.compact == compact)
                #expect(whole.hash.bytes == SHA256.hash(compact))
                #expect(whole.header.encoded == pieces[0])
                #expect(whole.header.hash.bytes == SHA256.hash(pieces[0]))
                #expect(Base64.decodeURL(pieces[1]) == whole.payload)
                #expect(Base64.decodeURL(pieces[2]) == whole.signature)
            }
            #expect(
                zip(parts.embedded, parts.embedded.dropFirst()).allSatisfy { $0.range.upperBound < $1.range.lowerBound }
            )
        }
    }

    @Test("a statement written with escapes is verified, and has no place of its own in the payload")
    func escapedStatement() throws {
        let rig = try NotificationRig()
        let payload = try text(NotificationDraft().payload(signedBy: rig.store))
        let escaped = payload.replacing(#""signedRenewalInfo":"e"#, with: #""signedRenewalInfo":"\u0065"#)
        #expect(escaped != payload)
        let verified = try rig.verifier.verify(signedPayload: rig.store.sign(escaped), now: present)
        #expect(verified.fact.renewal?.originalTransactionID == "100")
        #expect(verified.evidenceParts.embedded.count == 1)
    }
}
