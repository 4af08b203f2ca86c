package import EntitlementCore

/// What a notification carries: exactly one of four objects.
package enum NotificationContainer: Hashable, Sendable {
    case data(NotificationData)
    case summary(RenewalExtensionSummary)
    case externalPurchaseToken(ExternalPurchaseToken)
    case appData(NotificationAppData)

    /// The first that is there, in the order above; `nil` when none is.
    package init?(in notification: JSONObject) {
        if let object = notification["data"]?.object {
            self = .data(NotificationData(object))
        } else if let object = notification["summary"]?.object {
            self = .summary(RenewalExtensionSummary(object))
        } else if let object = notification["externalPurchaseToken"]?.object {
            self = .externalPurchaseToken(ExternalPurchaseToken(object))
        } else if let object = notification["appData"]?.object {
            self = .appData(NotificationAppData(object))
        } else {
            return nil
        }
    }

    /// Which app it is about, and where.
    package var app: NotificationApp {
        switch self {
        case .data(let data): data.app
        case .summary(let summary): summary.app
        case .externalPurchaseToken(let token): token.app
        case .appData(let data): data.app
        }
    }

    static let names = ["data", "summary", "externalPurchaseToken", "appData"]
}

/// The app a notification is about.
package struct NotificationApp: Hashable, Sendable {
    package let bundleID: String?
    /// Absent in the sandbox.
    package let appAppleID: Int64?
    /// The environment in Apple's word.
    package let environment: String?

    init(_ container: JSONObject, environment: String? = nil) {
        bundleID = container["bundleId"]?.identifier
        appAppleID = container["appAppleId"]?.int64
        self.environment = environment ?? container["environment"]?.identifier
    }
}

/// Apple's `data`: the subscription or purchase a notification is about.
package struct NotificationData: Hashable, Sendable {
    package let app: NotificationApp
    package let signedTransactionInfo: EmbeddedJWS?
    package let signedRenewalInfo: EmbeddedJWS?

    init(_ object: JSONObject) {
        app = NotificationApp(object)
        signedTransactionInfo = object["signedTransactionInfo"]?.signed
        signedRenewalInfo = object["signedRenewalInfo"]?.signed
    }
}

/// Apple's `summary`: how a mass extension of renewal dates went.
package struct RenewalExtensionSummary: Hashable, Sendable {
    package let app: NotificationApp
    package let productID: String?
    package let requestIdentifier: String?
    package let succeededCount: Int64?
    package let failedCount: Int64?

    init(_ object: JSONObject) {
        app = NotificationApp(object)
        productID = object["productId"]?.identifier
        requestIdentifier = object["requestIdentifier"]?.identifier
        succeededCount = object["succeededCount"]?.int64
        failedCount = object["failedCount"]?.int64
    }
}

/// Apple's `externalPurchaseToken`: a token of the External Purchase API, to be reported.
package struct ExternalPurchaseToken: Hashable, Sendable {
    /// It has no environment of its own; the id's prefix tells.
    package let app: NotificationApp
    package let externalPurchaseID: String?
    package let tokenCreationDate: Timestamp?

    init(_ object: JSONObject) {
        let id = object["externalPurchaseId"]?.identifier
        let isSandbox = id?.hasPrefix("SANDBOX") ?? false
        app = NotificationApp(object, environment: isSandbox ? "Sandbox" : "Production")
        externalPurchaseID = id
        tokenCreationDate = object["tokenCreationDate"]?.timestamp
    }
}

/// Apple's `appData`: the app itself, for which a guardian withdrew consent.
package struct NotificationAppData: Hashable, Sendable {
    package let app: NotificationApp
    package let signedAppTransactionInfo: EmbeddedJWS?

    init(_ object: JSONObject) {
        app = NotificationApp(object)
        signedAppTransactionInfo = object["signedAppTransactionInfo"]?.signed
    }
}

/// A decoded notification (responseBodyV2DecodedPayload).
package struct NotificationPayload: Hashable, Sendable {
    /// As signed; ``NotificationType`` has the ones this version knows.
    package let type: String
    package let subtype: String?
    /// In lower case when it is a UUID.
    package let uuid: String
    package let version: String?
    package let signedDate: Timestamp?
    package let container: NotificationContainer
    package let remarks: RemarkList

    /// Decodes the payload; `container` is what it carries, for whoever has read it before.
    package init(_ json: JSONObject, container: NotificationContainer?) throws(PayloadError) {
        type = try json.mandatory("notificationType", of: "the notification") { $0.identifier }
        uuid = normalizedUUID(try json.mandatory("notificationUUID", of: "the notification") { $0.identifier }).text
        guard let container else {
            throw .inconsistent("the notification has none of \(NotificationContainer.names.joined(separator: ", "))")
        }
        self.container = container
        subtype = json["subtype"]?.identifier
        version = json["version"]?.identifier
        signedDate = json["signedDate"]?.timestamp
        remarks = Self.remarks(on: json, type: type, subtype: subtype)
    }

    /// Decodes the payload.
    package init(_ json: JSONObject) throws(PayloadError) {
        try self.init(json, container: NotificationContainer(in: json))
    }

    /// Apple says a grace period runs; the grace's end is in the renewal information, or should be.
    package var isGraceNotification: Bool {
        NotificationType(rawValue: type) == .didFailToRenew
            && subtype.flatMap(NotificationSubtype.init(rawValue:)) == .gracePeriod
    }

    /// Apple says that something is taken back; from when on is in the transaction, or should be.
    package var isRevocationNotification: Bool {
        switch NotificationType(rawValue: type) {
        case .refund, .revoke: true
        default: false
        }
    }

    private static func remarks(on json: JSONObject, type: String, subtype: String?) -> RemarkList {
        var remarks = RemarkList()
        PayloadSchema.notification.inspect(json, into: &remarks)
        if NotificationType(rawValue: type) == nil { remarks.insert(.unknownType(type)) }
        if let subtype, NotificationSubtype(rawValue: subtype) == nil { remarks.insert(.unknownSubtype(subtype)) }
        let present = NotificationContainer.names.filter { json[$0]?.object != nil }
        if present.count > 1 { remarks.insert(.severalContainers(present)) }
        return remarks
    }
}
