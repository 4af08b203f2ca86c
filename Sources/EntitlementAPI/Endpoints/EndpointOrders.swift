package import EntitlementCore

/// What of an endpoint becomes another: the body of `PATCH /v1/webhook_endpoints/{id}`.
///
/// What is left out stays as it is; `null` takes away what may be missing (RFC 7396).
package struct EndpointChangeRequest: CommandBody {
    package let url: String?
    /// `[]`: all, as `null` is.
    package let types: [String]?
    package let environment: StoreEnvironment??
    package let description: String??
    package let authorizationHeader: String??
    /// These two stay what they are; another one is refused.
    package let app: String??
    package let format: String??
    /// What the body has beside that, and is ignored.
    package private(set) var unknownMembers: [String] = []

    package init(
        url: String? = nil, types: [String]? = nil, environment: StoreEnvironment?? = nil, description: String?? = nil,
        authorizationHeader: String?? = nil, app: String?? = nil, format: String?? = nil
    ) {
        (self.url, self.types, self.environment) = (url, types, environment)
        (self.description, self.authorizationHeader) = (description, authorizationHeader)
        (self.app, self.format) = (app, format)
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        url = try members.text(.url, limit: EndpointLimits.url)
        guard url != nil || !members.contains(.url) else {
            throw members.refusal(.url, "is null, and no endpoint is without one; leave it out to keep it")
        }
        let named = try members.list(.types, of: String.self, "a type of message", limit: EndpointLimits.types)
        types = members.contains(.types) ? named : nil
        environment = try members.patched(.environment) { try $0.word(.environment, StoreEnvironment.self) }
        description = try members.patched(.description) {
            try $0.text(.description, limit: EndpointLimits.description, hasLines: true)
        }
        authorizationHeader = try members.patched(.authorizationHeader) {
            try $0.text(.authorizationHeader, limit: EndpointLimits.authorization)
        }
        app = try members.patched(.app) { try $0.text(.app, limit: CommandLimits.bundleID) }
        format = try members.patched(.format) { try $0.text(.format, limit: 50) }
        unknownMembers = try decoder.members(besides: CodingKeys.allCases)
    }

    private enum CodingKeys: String, CodingKey, CaseIterable {
        case url, types, environment, description, app, format
        case authorizationHeader = "authorization_header"
    }
}

extension KeyedDecodingContainer {
    /// A member of which `null` says something else than its absence.
    fileprivate func patched<Value>(_ key: Key, _ read: (Self) throws -> Value?) throws -> Value?? {
        let value = try read(self)
        return contains(key) ? .some(value) : nil
    }
}

/// How a secret is rotated: the body of `…/actions/rotate_secret`, which may be left out.
package struct SecretRotationRequest: CommandBody {
    /// For how long the old ones sign along; `nil`: for a day.
    package let keepOldSeconds: Int64?

    package init(keepOldSeconds: Int64? = nil) { self.keepOldSeconds = keepOldSeconds }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        keepOldSeconds = try members.wholeNumber(
            .keepOldSeconds, in: 0...EndpointLimits.keepOldSeconds, "a number of seconds")
    }

    private enum CodingKeys: String, CodingKey {
        case keepOldSeconds = "keep_old_seconds"
    }
}

/// What is to be sent again: the body of `…/actions/redeliver`.
package struct RedeliveryRequest: AlternativeBody {
    package static let alternatives = [
        BodyAlternative("RedeliverPositions", ["from", "to"]), BodyAlternative("RedeliverFailed", ["failed"]),
        BodyAlternative("RedeliverMessage", ["webhook_id"]), BodyAlternative("RedeliverSpan", ["since", "until"]),
    ]

    package enum Choice: Hashable, Sendable {
        case positions(ClosedRange<Int64>)
        case failed
        /// One message, by its `webhook-id`.
        case message(String)
        /// From one instant on, and before another; `nil`: up to now.
        case span(since: Timestamp, until: Timestamp?)
    }

    package let choice: Choice
    /// `next_after` of the answer before; `nil`: from the beginning.
    package let after: Int64?

    package init(_ choice: Choice, after: Int64? = nil) { (self.choice, self.after) = (choice, after) }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        let (from, to) = (try members.position(.from), try members.position(.to))
        let isFailed = try members.value(.failed, Bool.self, "true or false") ?? false
        let message = try members.text(.webhookID, limit: 100)
        let (since, until) = (try members.timestamp(.since), try members.timestamp(.until))
        after = try members.wholeNumber(.after, in: 0...Int64.max, "a whole number")
        let named = [from != nil || to != nil, isFailed, message != nil, since != nil || until != nil]
        guard named.filter(\.self).count == 1 else {
            throw CommandBodyError(
                path: "",
                reason: "must have one of: from and to; failed: true; webhook_id; since, with until or without")
        }
        if from != nil || to != nil {
            let (from, to) = (try members.required(.from, from), try members.required(.to, to))
            guard from <= to else { throw members.refusal(.to, "must not be before from") }
            choice = .positions(from...to)
        } else if let message {
            choice = .message(message)
        } else if isFailed {
            choice = .failed
        } else {
            let since = try members.required(.since, since)
            if let until, until < since { throw members.refusal(.until, "must not be before since") }
            choice = .span(since: since, until: until)
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        switch choice {
        case .positions(let positions):
            try members.encode(positions.lowerBound, forKey: .from)
            try members.encode(positions.upperBound, forKey: .to)
        case .failed: try members.encode(true, forKey: .failed)
        case .message(let id): try members.encode(id, forKey: .webhookID)
        case .span(let since, let until):
            try members.encode(since, forKey: .since)
            try members.encodeIfPresent(until, forKey: .until)
        }
        try members.encodeIfPresent(after, forKey: .after)
    }

    private enum CodingKeys: String, CodingKey {
        case from, to, failed, since, until, after
        case webhookID = "webhook_id"
    }
}
