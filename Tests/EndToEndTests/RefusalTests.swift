import Foundation
import StoreSimulator
import Testing

/// What must not get in, against a running service.
@Suite("Refused notifications over HTTP", .serialized)
struct RefusalTests {
    @Test("forged, misbound and malformed notifications are refused with their code and leave no event")
    func forgeries() async throws {
        for productionOnly in [false, true] {
            let installation = try await Installation(
                environments: productionOnly ? ["production"] : ["production", "sandbox"])
            defer { installation.remove() }
            let key = try await installation.rightful("keys", "create", "--name", "test", "--scopes", "events:read")
                .trimmingCharacters(in: .whitespacesAndNewlines)
            let service = try await ServiceProcess.start(installation)
            defer { service.stop() }
            let client = HTTPClient(service.url, key: key)
            let forger = Forger(authority: installation.authority, world: installation.world)
            let forgeries = try forger.all().filter { productionOnly || !$0.needsProductionOnly }
            #expect(forgeries.count > 20)
            let head = try await client.head()
            for forgery in forgeries {
                let answer = try await client.notify(forgery.signedPayload)
                let codes = [forgery.code] + forgery.alternatives
                #expect(codes.contains(answer.code ?? ""), "\(forgery.name): \(answer.status) \(answer.text)")
                #expect((400..<500).contains(answer.status), "\(forgery.name): \(answer.status)")
                if answer.code == forgery.code { #expect(answer.status == forgery.status, "\(forgery.name)") }
                #expect(answer.headers["content-type"]?.hasPrefix("application/problem+json") == true)
            }
            #expect(try await client.head() == head)
            // The one they all vary is good: nothing but what is wrong with them was refused.
            let genuine = try await client.notify(try forger.genuine())
            #expect(genuine.status == 200, "\(genuine.text)")
            #expect(try await client.head() == head + 1)
        }
    }

    @Test("bodies that are no notification are refused as the documentation says")
    func bodies() async throws {
        let installation = try await Installation()
        defer { installation.remove() }
        let service = try await ServiceProcess.start(installation)
        defer { service.stop() }
        let client = HTTPClient(service.url)
        let cases: [(body: String, status: Int, code: String)] = [
            ("", 400, "malformed_request"), ("not json", 400, "malformed_request"), ("[]", 400, "malformed_request"),
            ("{}", 400, "malformed_request"), ("{\"signedPayload\":5}", 400, "malformed_request"),
            ("{\"signedPayload\":\"\"}", 400, "malformed_jws"), ("{\"signedPayload\":\"a.b\"}", 400, "malformed_jws"),
            ("{\"signedPayload\":\"\(String(repeating: "a", count: 3 << 20))\"}", 413, "too_large"),
        ]
        for item in cases {
            let answer = try await client.send("POST", "/v1/notifications/appstore", body: Array(item.body.utf8))
            #expect(answer.status == item.status && answer.code == item.code, "\(item.body.prefix(40)): \(answer.text)")
        }
        let wrongMethod = try await client.send("GET", "/v1/notifications/appstore")
        #expect(wrongMethod.status == 405 && wrongMethod.code == "method_not_allowed")
        let nowhere = try await client.send("GET", "/v1/nowhere")
        #expect(nowhere.status == 404 && nowhere.code == "not_found")
        let keyless = try await client.send("GET", "/v1/ledger")
        #expect(keyless.status == 401 && keyless.code == "unauthenticated")
        for path in ["/healthz", "/readyz"] { #expect(try await client.send("GET", path).status == 200) }
    }
}
