import AppStorePayloads
import EntitlementCore
import Testing

@Suite("Notification payloads")
struct NotificationPayloadTests {
    @Test("Apple's types and subtypes are all known")
    func counts() {
        #expect(NotificationType.allCases.count == 23)
        #expect(NotificationSubtype.allCases.count == 19)
    }

    @Test("every known type and subtype decodes without a remark", arguments: NotificationType.allCases)
    func knownTypes(type: NotificationType) throws {
        for subtype in [nil] + NotificationSubtype.allCases.map(Optional.some) {
            let members = Samples.notification.with("notificationType", type.rawValue)
                .with("subtype", subtype?.rawValue)
            let payload = try NotificationPayload(json(members))
            #expect(payload.type == type.rawValue)
            #expect(payload.subtype == subtype?.rawValue)
            #expect(payload.remarks.texts.isEmpty)
            #expect(
                payload.isGraceNotification == (type == .didFailToRenew && subtype == .gracePeriod))
            #expect(eventLabel(type: payload.type, subtype: payload.subtype) != "unknown")
        }
    }

    @Test("an unknown type or subtype is kept, and remarked on")
    func unknownTypes() throws {
        let members = Samples.notification.with("notificationType", "NEW_THING").with("subtype", "NEW_WAY")
        let payload = try NotificationPayload(json(members))
        #expect(payload.type == "NEW_THING")
        #expect(payload.subtype == "NEW_WAY")
        #expect(payload.remarks.texts == ["unknown_subtype:NEW_WAY", "unknown_type:NEW_THING"])
    }

    @Test("each of the four containers is read", arguments: [0, 1, 2, 3])
    func containers(index: Int) throws {
        let (name, members) = Samples.containers[index]
        let payload = try NotificationPayload(json(Samples.notification.with("data", nil).with(name, members)))
        #expect(payload.remarks.texts.isEmpty)
        #expect(payload.container.app.bundleID == "com.example.app")
        #expect(payload.container.app.environment == "Production")
        #expect(payload.container.app.appAppleID == (index == 0 ? 1_234_567_890 : 1))
        switch (index, payload.container) {
        case (0, .data(let data)):
            #expect(data.signedTransactionInfo?.compact == Array("a.b.c".utf8))
            #expect(data.signedRenewalInfo?.compact == Array("d.e.f".utf8))
        case (1, .summary(let summary)):
            #expect(summary.productID == "p")
            #expect(summary.requestIdentifier == "r")
            #expect(summary.succeededCount == 5)
            #expect(summary.failedCount == 2)
        case (2, .externalPurchaseToken(let token)):
            #expect(token.externalPurchaseID == "x")
            #expect(token.tokenCreationDate?.milliseconds == 1)
        case (3, .appData(let data)): #expect(data.signedAppTransactionInfo?.compact == Array("g.h.i".utf8))
        default: Issue.record("\(name) was read as \(payload.container)")
        }
    }

    @Test("an external purchase token tells its environment by its id's prefix")
    func externalPurchaseTokenEnvironment() throws {
        for (id, environment) in [("SANDBOX_1", "Sandbox"), ("sandbox", "Production"), ("1", "Production")] {
            let members = Samples.notification.with("data", nil)
                .with("externalPurchaseToken", ["externalPurchaseId": id])
            #expect(try NotificationPayload(json(members)).container.app.environment == environment)
        }
    }

    @Test("of several containers the first is taken, and all are remarked on")
    func severalContainers() throws {
        var members = Samples.notification.with("data", nil)
        for (name, container) in Samples.containers.dropFirst() { members[name] = container }
        let payload = try NotificationPayload(json(members))
        guard case .summary = payload.container else {
            Issue.record("took \(payload.container)")
            return
        }
        #expect(payload.remarks.texts == ["several_containers:summary,externalPurchaseToken,appData"])
    }

    @Test(
        "a notification without its mandatory fields is inconsistent",
        arguments: ["notificationType", "notificationUUID", "data"])
    func mandatory(name: String) throws {
        for value in [nil, "", 7, true, [String](), ["x"]] as [Any?] {
            let members = try json(Samples.notification.with(name, value))
            #expect {
                try NotificationPayload(members)
            } throws: { error in
                guard case PayloadError.inconsistent(let what) = error else { return false }
                return what.contains(name)
            }
        }
    }

    @Test("the UUID is compared in lower case, and the rest is as signed")
    func fields() throws {
        let payload = try NotificationPayload(json(Samples.notification))
        #expect(payload.uuid == "3838df56-31ab-4e2d-9f44-9b2b3b6b9a11")
        #expect(payload.version == "2.0")
        #expect(payload.signedDate?.milliseconds == 1_767_225_601_300)
        #expect(try NotificationPayload(json(Samples.notification.with("notificationUUID", "Ab-1"))).uuid == "Ab-1")
    }

    @Test("unknown fields, values of other types and unknown values are remarked on by their path")
    func remarks() throws {
        let data = Samples.data.with("environment", "Moon").with("status", 9).with("bundleVersion", 7)
            .with("consumptionRequestReason", "WHIM").with("later", ["a": 1]).with("signedRenewalInfo", 5)
        let members = Samples.notification.with("data", data).with("signedDate", "yesterday").with("extra", 1)
        let payload = try NotificationPayload(json(members))
        #expect(payload.signedDate == nil)
        #expect(
            payload.remarks.texts == [
                "unexpected_value:data.bundleVersion", "unexpected_value:data.signedRenewalInfo",
                "unexpected_value:signedDate", "unknown_field:data.later", "unknown_field:extra",
                "unknown_value:data.consumptionRequestReason=WHIM", "unknown_value:data.environment=Moon",
                "unknown_value:data.status=9",
            ])
    }

    @Test("a null is an absent field, without a remark")
    func nulls() throws {
        let members = #"""
            {"notificationType":"TEST","notificationUUID":"u","subtype":null,"signedDate":null,
             "summary":null,"data":{"bundleId":null,"status":null}}
            """#
        let payload = try NotificationPayload(json(text: members))
        #expect(payload.remarks.texts.isEmpty)
        #expect(payload.container.app.bundleID == nil)
    }

    @Test("an empty signed part is absent, and remarked on")
    func emptySignedPart() throws {
        let members = Samples.notification.with("data", Samples.data.with("signedTransactionInfo", ""))
        let payload = try NotificationPayload(json(members))
        guard case .data(let data) = payload.container else {
            Issue.record("took \(payload.container)")
            return
        }
        #expect(data.signedTransactionInfo == nil)
        #expect(payload.remarks.texts == ["unexpected_value:data.signedTransactionInfo"])
    }

    @Test("remarks are bounded in number and length, and the same for the same payload")
    func remarksAreBounded() throws {
        var members = Samples.notification
        for number in 100..<200 { members["field\(number)\u{7}é" + String(repeating: "x", count: 500)] = number }
        let first = try NotificationPayload(json(members)).remarks.texts
        #expect(first.count == 32)
        #expect(first.first?.hasPrefix("unknown_field:field100??xxx") == true)
        #expect(first.last == "more_remarks:69")
        #expect(first.allSatisfy { $0.utf8.count < 128 })
        for _ in 0..<5 { #expect(try NotificationPayload(json(members)).remarks.texts == first) }
    }
}
