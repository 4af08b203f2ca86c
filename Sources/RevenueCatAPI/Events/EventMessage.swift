import EntitlementAPI
package import EntitlementCore

/// An event as it is sent: the body of RevenueCat's webhooks.
///
/// Source: "Webhooks" of RevenueCat's documentation; `sequence`, `before` and `after` are ours.
package enum EventMessage {
    /// Everybody whom a kept event names, by their numbers.
    package static func people(in kept: [UInt8]) throws -> [IdentityRef] {
        guard case .object(let members) = try WireJSON.decode(WireValue.self, from: kept) else { return [] }
        return nameLists.flatMap { numbers(members[$0]) }
    }

    /// What an event's id is made of: what it is about.
    package static func subject(of kept: [UInt8]) throws -> String {
        guard case .object(let members) = try WireJSON.decode(WireValue.self, from: kept),
            case .string(let subject)? = members[EventMembers.subject]
        else { return "" }
        return subject
    }

    /// What is so of one sending alone.
    package struct Sending: Sendable {
        package let id: String
        /// When it was found; later than the event before of the same customer.
        package let at: Timestamp
        package let sequence: Int64
        package let customerID: String
        /// Of those the event names who are known.
        package let names: [IdentityRef: String]
        /// The list `entitlements` of the document, before and after.
        package let before: [UInt8]
        package let after: [UInt8]

        package init(
            id: String, at: Timestamp, sequence: Int64, customerID: String, names: [IdentityRef: String],
            before: [UInt8], after: [UInt8]
        ) {
            (self.id, self.at, self.sequence, self.customerID) = (id, at, sequence, customerID)
            (self.names, self.before, self.after) = (names, before, after)
        }
    }

    /// The body of an event.
    package static func body(of kept: [UInt8], _ sending: Sending) throws -> [UInt8] {
        guard case .object(var members) = try WireJSON.decode(WireValue.self, from: kept) else { return [] }
        members[EventMembers.subject] = nil
        for list in nameLists where members[list] != nil {
            let names = numbers(members[list]).compactMap { sending.names[$0] }
            members[list] = .array(names.flatMap(spellings(of:)).map(WireValue.string))
        }
        if members["transferred_to"] == nil {
            members["app_user_id"] = .string(sending.customerID)
            members["original_app_user_id"] = .string(sending.customerID)
        }
        members["id"] = .string(sending.id)
        members["event_timestamp_ms"] = .int(sending.at.milliseconds)
        members["sequence"] = .int(sending.sequence)
        members["before"] = try WireJSON.decode(WireValue.self, from: sending.before)
        members["after"] = try WireJSON.decode(WireValue.self, from: sending.after)
        return try encoded(members)
    }

    /// As receivers may have spelled a name: RevenueCat keeps it as the app wrote it and they compare texts, while a UUID is
    /// kept in lower case here and apps mostly write it in upper case.
    private static func spellings(of name: String) -> [String] {
        CustomerID.isUUID(name) ? [name, name.uppercased()] : [name]
    }

    /// For how long the sample runs, in milliseconds, as that of RevenueCat's.
    private static let testLength: Int64 = 7_200_000

    /// What an endpoint is tried with: a sample, of nobody.
    ///
    /// - Parameter appID: the app that the endpoint is told of; `nil`: all.
    package static func test(id: String, appID: String?, at instant: Timestamp) throws -> [UInt8] {
        let customer = "test"
        let view = PurchaseView(
            productID: "test_product", entitlementIDs: [], periodType: .normal, store: .appStore,
            appID: appID ?? "test_app", transactionID: "0", originalTransactionID: "0", purchasedAt: instant,
            expiresAt: instant.adding(milliseconds: testLength), isFamilyShare: false, offerCode: nil,
            price: nil, refund: nil)
        let event = PurchaseEvent(type: .test, view: view)
        var members = EventMembers(
            event, PurchaseKey(source: "", part: ""), number: 0, names: [], customer: IdentityRef(0), in: .sandbox
        ).members
        members[EventMembers.subject] = nil
        members["type"] = .string("TEST")
        members["app_user_id"] = .string(customer)
        members["original_app_user_id"] = .string(customer)
        members["aliases"] = .array([.string(customer)])
        members["id"] = .string(id)
        members["event_timestamp_ms"] = .int(instant.milliseconds)
        return try encoded(members)
    }

    /// The members that name people.
    private static let nameLists = ["aliases", "transferred_from", "transferred_to"]

    private static func numbers(_ list: WireValue?) -> [IdentityRef] {
        guard case .array(let entries)? = list else { return [] }
        return entries.compactMap { entry in
            if case .int(let number) = entry { IdentityRef(number) } else { nil }
        }
    }

    /// What `api_version` says.
    package static let version = "1.0"

    private struct Body<Event: Encodable>: Encodable {
        let api_version = EventMessage.version
        let event: Event
    }

    /// Through the types that describe events, so that nothing is sent which they do not say.
    private static func encoded(_ event: [String: WireValue]) throws -> [UInt8] {
        let bytes = try WireJSON.encode(WireValue.object(event))
        guard event["transferred_to"] == nil else {
            return try WireJSON.encode(Body(event: try WireJSON.decode(TransferEventDocument.self, from: bytes)))
        }
        return try WireJSON.encode(Body(event: try WireJSON.decode(PurchaseEventDocument.self, from: bytes)))
    }
}
