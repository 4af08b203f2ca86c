import EntitlementAPI
import EntitlementCore
import HTTPServer

extension OperationHandlers {
    /// `GET /.well-known/rightful-keys`: the public keys of passes, for anybody.
    func publishPassKeys(_ call: Call) async throws -> HTTPResponse {
        let body = try WireJSON.encode(passKeys.keySet)
        let tag = "\"\(context.sha256(body).hex.prefix(32))\""
        let headers = [("ETag", tag), ("Cache-Control", "public, max-age=\(Self.passKeySetAge)")]
        if let known = try call.value(of: .ifNoneMatch), EntityTagList(known)?.matchesWeakly(tag) == true {
            return HTTPResponse(status: 304, headers: headers, body: body)
        }
        return .json(headers: headers, body)
    }

    /// How long a verifier may keep the keys, in seconds: the longest that a removed one is still believed.
    private static let passKeySetAge = 300
}
