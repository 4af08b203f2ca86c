import EntitlementAPI
import EntitlementCore
import HTTPServer
import OpenSSLCrypto

extension OperationHandlers {
    /// `GET /v1/openapi.json`: the description of the service, for anybody.
    func publishDescription(_ call: Call) async throws -> HTTPResponse {
        let (body, tag) = try Self.description.get()
        let headers = [("ETag", tag), ("Cache-Control", "public, max-age=\(Self.descriptionAge)")]
        if let known = try call.value(of: .ifNoneMatch), EntityTagList(known)?.matchesWeakly(tag) == true {
            return HTTPResponse(status: 304, headers: headers)
        }
        return .json(headers: headers, body)
    }

    /// How long a client may keep it, in seconds.
    private static let descriptionAge = 300

    /// Made when it is asked for first; the same bytes in every process of this program.
    private static let description = Result {
        let body = try WireJSON.encode(OpenAPIDocument.make())
        let hash = (Digest(SHA256.hash(body)) ?? .zero).hex
        return (body: body, tag: "\"\(hash.prefix(32))\"")
    }
}
