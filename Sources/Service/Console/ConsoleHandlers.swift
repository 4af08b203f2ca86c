import ConsoleAssets
import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import OpenSSLCrypto

/// The console, and who is signed in to it.
struct ConsoleHandlers: Sendable {
    /// `nil`: there is no console.
    let sessions: ConsoleSessions?
    let admission: Admission
    let now: @Sendable () -> Timestamp

    /// `GET /console`: the page, for anybody; it knows nothing until somebody has signed in.
    ///
    /// The page's addresses are relative, so behind a slash it would ask for what is not there.
    func page(_ call: Call) async throws -> HTTPResponse {
        _ = try ownSessions()
        guard !call.request.path.hasSuffix("/") else {
            return HTTPResponse(status: 308, headers: [("Location", "../console"), ("Cache-Control", "no-cache")])
        }
        return try respond(Self.page, isKept: false, call)
    }

    /// `GET /console/assets/{version}/{file}`: what the page is made of.
    ///
    /// A page of another version, such as that of an instance that is not upgraded yet, gets what there is here.
    func asset(_ call: Call) async throws -> HTTPResponse {
        _ = try ownSessions()
        guard let file = Self.files[try call.value(of: .consoleFile) ?? ""] else {
            throw Problem(.notFound, "The console has no such file.", param: Parameter.consoleFile.name)
        }
        return try respond(file, isKept: try call.value(of: .consoleVersion) == Self.version, call)
    }

    private func respond(_ file: File, isKept: Bool, _ call: Call) throws -> HTTPResponse {
        let headers = [
            // The page is asked for each time, so that another version is there at once; its files stay what they are.
            ("ETag", file.tag), ("Cache-Control", isKept ? "public, max-age=31536000, immutable" : "no-cache"),
            ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
            ("Content-Security-Policy", Self.contentPolicy), ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ]
        if let known = try call.value(of: .ifNoneMatch), EntityTagList(known)?.matchesWeakly(file.tag) == true {
            return HTTPResponse(status: 304, headers: headers)
        }
        return HTTPResponse(status: 200, headers: [("Content-Type", file.contentType)] + headers, body: file.bytes)
    }

    /// Nothing but what this service sends, and no script or style within the page.
    private static let contentPolicy =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        + "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

    private struct File {
        let contentType: String
        let bytes: [UInt8]
        let tag: String

        init(_ asset: ConsoleAsset, bytes: [UInt8]) {
            (contentType, self.bytes) = (asset.contentType, bytes)
            tag = "\"\(ConsoleHandlers.hash(bytes))\""
        }
    }

    private static let files = Dictionary(
        uniqueKeysWithValues: ConsoleAssets.all.map { ($0.name, File($0, bytes: $0.bytes)) })

    /// What all files are together, as far as addresses go.
    private static let version = hash(Array(ConsoleAssets.all.map { hash($0.bytes) }.joined().utf8))

    /// The page, which asks for the files of this version.
    private static let page = File(
        ConsoleAssets.page,
        bytes: Array(
            String(decoding: ConsoleAssets.page.bytes, as: UTF8.self)
                .replacing("console/assets/", with: "console/assets/\(version)/").utf8))

    private static func hash(_ bytes: [UInt8]) -> String {
        String((Digest(SHA256.hash(bytes)) ?? .zero).hex.prefix(32))
    }

    // MARK: - Sessions

    /// `POST /console/session`: a key, or a link that is good once, for a session.
    ///
    /// Whoever shows what is good for nothing pays for it as for a key that is none.
    func signIn(_ call: Call) async throws -> HTTPResponse {
        let sessions = try ownSessions()
        try ConsoleCookie.checkOrigin(call.request)
        try ConsoleCookie.checkIsJSON(call.request)
        let request = try call.command(ConsoleSignInRequest.self)
        try Self.check(path: request.path)
        let begun = try await admission.atGuessersExpense(call.request) {
            switch request.proof {
            case .key(let secret): try await sessions.begin(secret: secret, now: now())
            case .link(let link): try await sessions.begin(link: link, now: now())
            }
        }
        guard let begun else {
            switch request.proof {
            case .key:
                throw Authenticator.unauthenticated(
                    "The API key is unknown, was revoked, or is a publishable one, with which nobody signs in.")
            case .link:
                throw Authenticator.unauthenticated(
                    "The sign-in link was used before, or is older than ten minutes; make another.")
            }
        }
        // One browser has one session.
        if let earlier = ConsoleCookie.token(in: call.request) { try await sessions.end(token: earlier) }
        let cookie = ConsoleCookie.set(begun.token, path: request.path, isSecure: isSecure(call.request))
        return try Self.document(begun.token, begun.session, [cookie])
    }

    /// `GET /console/session`: who is signed in.
    func showSession(_ call: Call) async throws -> HTTPResponse {
        _ = try ownSessions()
        guard let token = ConsoleCookie.token(in: call.request) else { return try Self.document(nil, nil) }
        let session =
            admission.authenticator.wasSecretKey(.session(token))
            ? try await admission.authenticator.findSession(token)
            : try await admission.atGuessersExpense(call.request) {
                try await admission.authenticator.findSession(token)
            }
        return try Self.document(token, session)
    }

    /// `DELETE /console/session`: ends the session, on every instance.
    func signOut(_ call: Call) async throws -> HTTPResponse {
        let sessions = try ownSessions()
        let path = try call.text(.consolePath)
        try Self.check(path: path)
        if let token = ConsoleCookie.token(in: call.request) {
            try ConsoleCookie.checkCommand(call.request, of: token, sent: try call.value(of: .consoleToken))
            try await sessions.end(token: token)
        }
        return try Self.document(nil, nil, [ConsoleCookie.clear(path: path, isSecure: isSecure(call.request))])
    }

    private static func check(path: String?) throws(Problem) {
        guard path.map(ConsoleSignInRequest.isPath) ?? true else {
            throw Problem(
                .malformedRequest, "path is an absolute path that ends with /, such as /rightful/.", param: "path")
        }
    }

    private static func document(
        _ token: String?, _ session: ConsoleSession?, _ headers: [(String, String)] = []
    ) throws -> HTTPResponse {
        let shown = token.flatMap { token in session.map { ConsoleDocument.Session($0, token: token) } }
        return try .document(ConsoleDocument(session: shown), headers: headers + [("Cache-Control", "no-store")])
    }

    /// Whether the browser came by TLS: it says so itself, or the proxy does that ended it.
    private func isSecure(_ request: HTTPRequest) -> Bool {
        if request.header("Origin")?.lowercased().hasPrefix("https://") == true { return true }
        return admission.trusts(request.remoteAddress) && request.header("X-Forwarded-Proto")?.lowercased() == "https"
    }

    /// - Throws: `not_found` where there is no console.
    private func ownSessions() throws(Problem) -> ConsoleSessions {
        guard let sessions else { throw Problem(.notFound, "There is no console here (setting console).") }
        return sessions
    }
}

extension ConsoleDocument.Session {
    fileprivate init(_ session: ConsoleSession, token: String) {
        let key = session.key
        self.init(
            key: ConsoleDocument.Key(
                id: key.id, name: key.name, scopes: key.scopes.map(\.rawValue).sorted(), environment: key.environment,
                app: key.bundleID), token: ConsoleCookie.commandToken(of: token), createdAt: session.createdAt,
            idleEndsAt: session.idleEnd, endsAt: session.lastEnd)
    }
}
