package import EntitlementCore

/// Who signs in to the console, and with what: the body of `POST /console/session`.
package struct ConsoleSignInRequest: AlternativeBody {
    package static let alternatives = [
        BodyAlternative("SignInWithKey", ["key"]),
        BodyAlternative("SignInByLink", ["link"]),
    ]

    package enum Proof: Hashable, Sendable {
        /// A secret key.
        case key(String)
        /// What stands behind `#link=` in a sign-in link.
        case link(String)
    }

    /// The longest key, or token of a link, in bytes.
    private static let secretLimit = 256
    /// The longest path, in bytes.
    private static let pathLimit = 256

    package let proof: Proof
    /// Where the service stands behind a proxy, such as `/rightful/`, for the cookie; `nil`: at `/`.
    ///
    /// It is one by ``isPath(_:)`` or refused.
    package let path: String?

    package init(_ proof: Proof, path: String? = nil) {
        self.proof = proof
        self.path = path
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        let key = try members.text(.key, limit: Self.secretLimit)
        let link = try members.text(.link, limit: Self.secretLimit)
        switch (key, link) {
        case (let key?, nil): proof = .key(key)
        case (nil, let link?): proof = .link(link)
        case (nil, nil): throw CommandBodyError(path: "", reason: "must have key or link")
        case (.some, .some): throw members.refusal(.link, "may not stand beside key; send one alone")
        }
        path = try members.text(.path, limit: Self.pathLimit)
    }

    package func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        switch proof {
        case .key(let key): try members.encode(key, forKey: .key)
        case .link(let link): try members.encode(link, forKey: .link)
        }
        try members.encodeIfPresent(path, forKey: .path)
    }

    /// Whether it is a path at which a cookie may be set.
    package static func isPath(_ text: String) -> Bool {
        text.hasPrefix("/") && text.hasSuffix("/")
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: "/-._~%!$&'()*+=:@".utf8.contains(byte)
                }
            }
    }

    private enum CodingKeys: String, CodingKey {
        case key, link, path
    }
}

/// Who is signed in to the console: the answer of all that `/console/session` takes.
package struct ConsoleDocument: Codable, Hashable, Sendable, NamedDocument {
    /// The key that somebody signed in with.
    package struct Key: Codable, Hashable, Sendable {
        package let id: String
        package let name: String
        /// What it may do, in the order of the alphabet; `admin` is all of them.
        package let scopes: [String]
        /// The only environment it is good for; `null`: both.
        @Nullable package private(set) var environment: StoreEnvironment?
        /// The only app it is good for; `null`: all.
        @Nullable package private(set) var app: String?

        package init(id: String, name: String, scopes: [String], environment: StoreEnvironment?, app: String?) {
            self.id = id
            self.name = name
            self.scopes = scopes
            _environment = Nullable(wrappedValue: environment)
            _app = Nullable(wrappedValue: app)
        }
    }

    package struct Session: Codable, Hashable, Sendable {
        package let key: Key
        /// What commands bear, in the header `Console-Token`.
        package let token: String
        package let createdAt: Timestamp
        /// When it ends unless it is used before.
        package let idleEndsAt: Timestamp
        /// When it ends however much it is used.
        package let endsAt: Timestamp

        package init(key: Key, token: String, createdAt: Timestamp, idleEndsAt: Timestamp, endsAt: Timestamp) {
            self.key = key
            self.token = token
            self.createdAt = createdAt
            self.idleEndsAt = idleEndsAt
            self.endsAt = endsAt
        }

        private enum CodingKeys: String, CodingKey {
            case key, token
            case createdAt = "created_at"
            case idleEndsAt = "idle_ends_at"
            case endsAt = "ends_at"
        }
    }

    package static let objectName = "console"
    package private(set) var object = Self.objectName
    /// `null`: nobody is signed in.
    @Nullable package private(set) var session: Session?

    package init(session: Session?) { _session = Nullable(wrappedValue: session) }
}
