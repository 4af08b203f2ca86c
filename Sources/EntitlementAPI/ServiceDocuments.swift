/// The answer of `GET /healthz` and `GET /readyz`.
package struct HealthDocument: Codable, Hashable, Sendable {
    /// `ok`, or `ready`.
    package let status: String

    package init(status: String) { self.status = status }
}

/// What the App Store posts: the body of `POST /v1/notifications/appstore`.
///
/// The service reads the bytes themselves, since what is signed is kept as it came.
package struct NotificationBody: Codable, Hashable, Sendable {
    /// A compact JWS.
    package let signedPayload: String
}
