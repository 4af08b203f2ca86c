import EntitlementCore
import HTTPServer
import Ledger
import Testing

@testable import Service

@Suite("Whose bodies are taken", .serialized, .timeLimit(.minutes(5)))
struct BodyAdmissionTests {
    private static let start = ContinuousClock.now

    /// What becomes of a request, once its head is there.
    ///
    /// - Parameter length: of its body; `nil` where that comes in chunks.
    private static func verdict(
        _ rig: ServiceRig, _ method: String, _ target: String, key: String?, length: Int? = 1 << 20,
        peer: String = "192.0.2.1"
    ) async -> String {
        let framing = length.map { ("Content-Length", String($0)) } ?? ("Transfer-Encoding", "chunked")
        let headers = [framing] + (key.map { [("Authorization", "Bearer " + $0)] } ?? [])
        let head = HTTPRequestHead(
            method: method, target: target, headers: headers, remoteAddress: peer, receivedAt: start)
        switch rig.application.gate(head) {
        case .open(.shared, _): return "open"
        case .open(.reserved, _): return "reserved"
        case .refuse(let answer): return answer.verdict
        case .ask(_, let ask): return "asked, " + (await ask()?.verdict ?? "open")
        }
    }

    private static let reconcile = "/v1/customers/c-1/reconcile"

    @Test(
        "by its head alone a request is refused before its body is read; the store's bodies have a memory of their own")
    func table() async throws {
        let rig = try await ServiceRig.make()
        let device = try await rig.publishableKey()
        let reader = try await rig.keys.create(name: "r", scopes: [.customersRead]).secret
        for (method, target, key, verdict) in [
            ("POST", "/v1/notifications/appstore", nil, "reserved"),
            ("POST", Self.reconcile, nil, "401 unauthenticated"),
            ("POST", Self.reconcile, "anything", "401 unauthenticated"),
            ("POST", Self.reconcile, "rightful_pk_unknown", "asked, 401 unauthenticated"),
            ("POST", Self.reconcile, "rightful_sk_unknown", "asked, 401 unauthenticated"),
            ("POST", Self.reconcile, reader, "asked, 403 forbidden"),
            ("POST", Self.reconcile, device, "asked, open"), ("POST", Self.reconcile, device, "open"),
            ("PUT", "/v1/catalog", rig.admin, "asked, open"), ("PUT", "/v1/catalog", rig.admin, "open"),
            ("POST", "/v1/nothing", nil, "404 not_found"), ("POST", "/v1/nothing", device, "404 not_found"),
        ] as [(String, String, String?, String)] {
            #expect(await Self.verdict(rig, method, target, key: key) == verdict, "\(target) \(key ?? "-")")
        }
        let small = Application.smallBody
        #expect(await Self.verdict(rig, "POST", Self.reconcile, key: "rightful_pk_other", length: small) == "open")
        #expect(await Self.verdict(rig, "POST", Self.reconcile, key: nil, length: 1) == "401 unauthenticated")
    }

    @Test("where there is no route no body is taken but a small one, whatever limit the path looks like")
    func noRoute() async throws {
        let rig = try await ServiceRig.make()
        let device = try await rig.publishableKey()
        let small = Application.smallBody
        for target in ["/v1/customers/a/b/c/reconcile", "/v1/nothing"] {
            for key in [nil, device] {
                for (length, verdict) in [
                    (1, "open"), (small, "open"), (small + 1, "404 not_found"), (4 << 20, "404 not_found"),
                    (nil, "404 not_found"),
                ] as [(Int?, String)] {
                    let found = await Self.verdict(rig, "POST", target, key: key, length: length)
                    #expect(found == verdict, "\(target) \(key ?? "-") \(length ?? -1)")
                }
            }
        }
        #expect(await Self.verdict(rig, "PUT", Self.reconcile, key: nil) == "405 method_not_allowed")
        #expect(BodyLimits(Route.all, .init()).limit("POST", "/v1/customers/a/b/c/reconcile") > small)
    }

    @Test("whoever has nothing left to send requests with is told so before the body")
    func rates() async throws {
        var limits = Application.Limits()
        limits.rates.address = RateLimit(perSecond: 1, burst: 3)
        let rig = try await ServiceRig.make(limits: limits)
        let device = try await rig.publishableKey()
        for _ in 0..<3 { #expect(await Self.verdict(rig, "POST", Self.reconcile, key: nil) == "401 unauthenticated") }
        #expect(await Self.verdict(rig, "POST", Self.reconcile, key: nil) == "429 rate_limited")
        #expect(await Self.verdict(rig, "POST", Self.reconcile, key: device) == "429 rate_limited")
        #expect(await Self.verdict(rig, "POST", "/v1/notifications/appstore", key: nil) == "reserved")
        #expect(await Self.verdict(rig, "PUT", "/v1/catalog", key: rig.admin) == "asked, open")
        let elsewhere = "192.0.2.2"
        for _ in 0..<20 {
            let verdict = await Self.verdict(rig, "POST", Self.reconcile, key: device, peer: elsewhere)
            #expect(["asked, open", "open"].contains(verdict), "to look at the head costs nothing: \(verdict)")
        }
    }

    @Test("however many ask whether the service is ready, the database is asked once in a while")
    func readiness() async throws {
        let asked = Counter()
        let readiness = Readiness(lifetime: .seconds(60)) {
            await asked.add()
            try await Task.sleep(for: .milliseconds(50))
            return (nil, 7)
        }
        try await withThrowingTaskGroup(of: Int64?.self) { group in
            for _ in 0..<50 { group.addTask { try await readiness.standing()?.position } }
            for try await position in group { #expect(position == 7) }
        }
        #expect(try await readiness.standing()?.position == 7)
        #expect(await asked.count == 1)
    }

    private actor Counter {
        private(set) var count = 0

        func add() { count += 1 }
    }
}
