import EntitlementAPI

// What the routes of the console take and answer.
extension APIOperation {
    static let readConsole = APIOperation(
        "readConsole", .console, "Open the console",
        "The page on which people [see, understand and put right](console.md) what customers hold. It is told nothing before "
            + "somebody has signed in. Where the setting `console` is `false`, it and all below is `404`. "
            + "`/console/` leads here by `308`.",
        [.ifNoneMatch],
        answer: .texts(["text/html; charset=utf-8": "<!doctype html>"]), headers: [.entityTag], codes: [.notFound])

    static let readConsoleFile = APIOperation(
        "readConsoleFile", .console, "Read a file of the console",
        "What the page is made of, by the addresses that it has itself: scripts, styles, a picture, the page.",
        [.consoleVersion, .consoleFile, .ifNoneMatch],
        answer: .texts([
            "text/javascript; charset=utf-8": "export {};", "text/css; charset=utf-8": "body { margin: 0; }",
            "text/html; charset=utf-8": "<!doctype html>", "image/svg+xml; charset=utf-8": "<svg/>",
        ]), headers: [.entityTag], codes: [.notFound])

    static let signIn = APIOperation(
        "signIn", .console, "Sign in",
        "A secret key, or what stands in a link that is good once, for a [session](console.md#sessions): a cookie "
            + "`rightful_session` that scripts cannot read. The request says `Content-Type: application/json`, which no form of "
            + "another site can. Until the session ends every route takes the cookie in place of the key. Commands bear "
            + "`token` as well, in the header `Console-Token`; without it they are `forbidden`.",
        body: Body(ConsoleSignInRequest.self, #"{"key":"rightful_sk_…","path":"/"}"#),
        answer: .document(ConsoleDocument.self, Example.console), headers: [.cookie],
        codes: [.unauthenticated, .forbidden, .notFound])

    static let readSession = APIOperation(
        "readSession", .console, "Read the session",
        "Who is signed in, by the cookie, what they may do, and until when; `session` is `null` where nobody is.",
        answer: .document(ConsoleDocument.self, Example.console), headers: [], codes: [.notFound])

    static let signOut = APIOperation(
        "signOut", .console, "Sign out", "Ends the session, at every instance.",
        [.consoleToken, .consolePath],
        answer: .document(ConsoleDocument.self, #"{"object":"console","session":null}"#), headers: [.cookie],
        codes: [.forbidden, .notFound])
}
