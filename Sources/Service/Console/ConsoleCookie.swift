import EntitlementCore
import HTTPServer
import Ledger
import OpenSSLCrypto

/// What a browser holds of a session of the console, and what its requests are held to.
enum ConsoleCookie {
    static let name = "rightful_session"
    /// The header of a command that no other site can make a browser send.
    static let tokenHeader = Parameter.consoleToken.name
    /// Longer than any token that was made here, in bytes.
    private static let tokenLimit = 128

    /// The session's token in a request; `nil` where there is none.
    ///
    /// Of several cookies of this name the first counts, which is the one with the longest path.
    static func token(in request: HTTPRequest) -> String? {
        for line in request.head.headerValues("Cookie") {
            for pair in line.split(separator: ";") {
                let pair = pair.drop { $0 == " " }
                guard pair.hasPrefix(name + "=") else { continue }
                let token = String(pair.dropFirst(name.utf8.count + 1))
                let isToken = token.hasPrefix(ConsoleSessions.tokenPrefix) && token.utf8.count <= tokenLimit
                return isToken ? token : nil
            }
        }
        return nil
    }

    /// What a command has to bear beside the cookie: only a page of this site is told it.
    static func commandToken(of token: String) -> String {
        Base64.encodeURL(SHA256.hash(Array("command of console session \(token)".utf8)))
    }

    /// Refuses a command that another site may have made the browser send.
    ///
    /// - Throws: `forbidden`.
    static func checkCommand(_ request: HTTPRequest, of token: String, sent: String?) throws(Problem) {
        try checkOrigin(request)
        guard ConstantTime.equal(Array((sent ?? "").utf8), Array(commandToken(of: token).utf8)) else {
            throw Problem(
                .forbidden,
                "A command of a session bears its token in the header \(tokenHeader); GET /console/session tells it.",
                param: tokenHeader)
        }
    }

    /// - Throws: `forbidden` where the browser says that a page of another site sends the request.
    static func checkOrigin(_ request: HTTPRequest) throws(Problem) {
        guard let site = request.header("Sec-Fetch-Site"), site != "same-origin", site != "none" else { return }
        throw Problem(.forbidden, "Another site sends this.", param: "Sec-Fetch-Site")
    }

    /// Refuses a body that a form of any site can send: to send JSON elsewhere, a browser asks that server first.
    ///
    /// Not every browser says by which site a request is sent: older ones do not, nor any over plain http.
    ///
    /// - Throws: `malformed_request`.
    static func checkIsJSON(_ request: HTTPRequest) throws(Problem) {
        let type = request.header("Content-Type")?.prefix { $0 != ";" && $0 != " " }
        guard type?.lowercased() == "application/json" else {
            throw Problem(
                .malformedRequest, "Send this with Content-Type: application/json.", param: "Content-Type")
        }
    }

    /// The field that has a browser hold a token.
    static func set(_ token: String, path: String?, isSecure: Bool) -> (String, String) {
        ("Set-Cookie", field(token, path, ConsoleSessions.longestSeconds, isSecure))
    }

    /// The field that has a browser forget its token.
    static func clear(path: String?, isSecure: Bool) -> (String, String) {
        ("Set-Cookie", field("", path, 0, isSecure))
    }

    private static func field(_ value: String, _ path: String?, _ age: Int64, _ isSecure: Bool) -> String {
        "\(name)=\(value); Path=\(path ?? "/"); Max-Age=\(age); HttpOnly; SameSite=Strict"
            + (isSecure ? "; Secure" : "")
    }
}
