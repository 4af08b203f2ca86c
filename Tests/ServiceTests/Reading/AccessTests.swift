import EntitlementAPI
import EntitlementCore
import HTTPServer
import Ledger
import PostgresClient
import Testing

@testable import Service

@Suite("Scopes and bindings of keys", .serialized, .timeLimit(.minutes(5)))
struct AccessTests {
    /// Every route that needs a scope, with the scope it is documented to need.
    private static let scopes: [String: APIScope] = [
        "GET /v1/customers/{id}/entitlements": .customersRead,
        "GET /v1/customers/{id}/timeline": .customersRead,
        "GET /v1/customers/{id}/explain": .customersRead,
        "GET /v1/customers/{id}/events": .eventsRead,
        "POST /v1/customers/{id}/tokens": .customersWrite,
        "POST /v1/customers/{id}/actions/link": .customersWrite,
        "POST /v1/customers/{id}/actions/transfer": .customersWrite,
        "POST /v1/customers/{id}/actions/grant": .customersWrite,
        "POST /v1/customers/{id}/actions/revoke_grant": .customersWrite,
        "POST /v1/customers/{id}/actions/preview": .customersWrite,
        "POST /v1/customers/{id}/actions/forget": .admin,
        "GET /v1/customers/{id}/export": .eventsRead,
        "GET /v1/customers": .customersRead,
        "GET /v1/subscriptions/{original_transaction_id}": .customersRead,
        "POST /v1/subscriptions/{original_transaction_id}/actions/check": .customersWrite,
        "POST /v1/subscriptions/{original_transaction_id}/actions/extend": .customersWrite,
        "POST /v1/offer_signatures": .customersWrite,
        "GET /v1/streams": .eventsRead,
        "GET /v1/drift": .eventsRead,
        "GET /v1/charts": .eventsRead,
        "GET /v1/remarks": .eventsRead,
        "GET /v1/charts/{name}": .eventsRead,
        "GET /v1/events": .eventsRead,
        "GET /v1/events/{position}": .eventsRead,
        "GET /v1/events/{position}/proof": .eventsRead,
        "GET /v1/ledger": .eventsRead,
        "GET /v1/ledger/checkpoint": .eventsRead,
        "GET /v1/ledger/consistency": .eventsRead,
        "GET /v1/catalog": .customersRead,
        "PUT /v1/catalog": .catalogWrite,
        "POST /v1/catalog/actions/try": .catalogWrite,
        "GET /revenuecat/v1/subscribers/{app_user_id}": .customersRead,
        "POST /v1/webhook_endpoints": .admin,
        "GET /v1/webhook_endpoints": .admin,
        "GET /v1/webhook_endpoints/{id}": .admin,
        "PATCH /v1/webhook_endpoints/{id}": .admin,
        "DELETE /v1/webhook_endpoints/{id}": .admin,
        "GET /v1/webhook_endpoints/{id}/deliveries": .admin,
        "POST /v1/webhook_endpoints/{id}/actions/rotate_secret": .admin,
        "POST /v1/webhook_endpoints/{id}/actions/pause": .admin,
        "POST /v1/webhook_endpoints/{id}/actions/resume": .admin,
        "POST /v1/webhook_endpoints/{id}/actions/test": .admin,
        "POST /v1/webhook_endpoints/{id}/actions/redeliver": .admin,
        "GET /metrics": .metrics,
    ]

    /// The routes that need a scope, each with a target that it takes.
    private static let routes: [(method: String, target: String, scope: APIScope)] = Route.all.compactMap { route in
        guard case .scope(let scope) = route.access else { return nil }
        let target = route.template.replacing("{id}", with: "c").replacing("{position}", with: "1")
            .replacing("{original_transaction_id}", with: "1").replacing("{app_user_id}", with: "c")
            .replacing("{name}", with: "active")
        return (route.method, target, scope)
    }

    @Test("what each route asks of who sends it is what is documented")
    func documented() {
        #expect(Self.routes.count >= 13)
        var open: Set<String> = []
        var device: Set<String> = []
        var shop: Set<String> = []
        for route in Route.all {
            let name = "\(route.method) \(route.template)"
            switch route.access {
            case .open: open.insert(name)
            case .device: device.insert(name)
            case .shop: shop.insert(name)
            case .scope(let scope): #expect(Self.scopes[name] == scope, "\(name)")
            }
        }
        #expect(
            device == [
                "POST /v1/customers/{id}/reconcile", "POST /v1/customers/{id}/checkout",
                "POST /v1/customers/{id}/portal",
            ])
        #expect(shop == ["GET /v1/products"])
        #expect(
            open == [
                "POST /v1/notifications/appstore", "POST /v1/notifications/stripe", "GET /.well-known/rightful-keys",
                "GET /.well-known/rightful-log-key", "GET /v1/openapi.json", "GET /healthz", "GET /readyz",
                // The page is told nothing; the session's routes look at what is shown to them by themselves.
                "GET /console", "GET /console/assets/{version}/{file}", "POST /console/session", "GET /console/session",
                "DELETE /console/session",
            ])
    }

    @Test("each route takes keys of its scope and of admin, and no others")
    func matrix() async throws {
        let rig = try await ServiceRig.make()
        for scope in APIScope.allCases {
            let key = try await rig.keys.create(name: scope.rawValue, scopes: [scope]).secret
            for route in Self.routes {
                let answer = try await rig.send(route.method, route.target, key: key)
                let isAllowed = scope == route.scope || scope == .admin
                #expect((answer.code != "forbidden") == isAllowed, "\(scope) on \(route.method) \(route.target)")
            }
        }
    }

    @Test("reconcile takes any publishable key, secret keys that may write, and the customer's own token")
    func reconcile() async throws {
        let rig = try await ServiceRig.make()
        let target = "/v1/customers/c/reconcile"
        func isLetIn(_ key: String) async throws -> Bool {
            let answer = try await rig.send("POST", target, key: key)
            // There is no body.
            #expect(["400 malformed_request", "403 forbidden"].contains(answer.verdict))
            return answer.status == 400
        }
        for scope in APIScope.allCases {
            let key = try await rig.keys.create(name: scope.rawValue, scopes: [scope]).secret
            #expect(try await isLetIn(key) == (scope == .customersWrite || scope == .admin), "\(scope)")
        }
        #expect(try await isLetIn(rig.publishableKey()))
        #expect(try await isLetIn(rig.token("c")))
        #expect(try await !isLetIn(rig.token("d")))
        #expect(try await rig.send("POST", target).verdict == "401 unauthenticated")
    }

    @Test("a publishable key reads nothing, no key and a wrong key are asked for one")
    func strangers() async throws {
        let rig = try await ServiceRig.make()
        let publishable = try await rig.keys.create(
            name: "app", scopes: [.admin], isPublishable: true, environment: .production, bundleID: "com.example.app"
        ).secret
        for route in Self.routes {
            let byApp = try await rig.send(route.method, route.target, key: publishable)
            #expect(byApp.verdict == "403 forbidden")
            let long = String(repeating: "k", count: 4000)
            for key in [nil, "", "rightful_sk_wrong", "rightful_pk_wrong", rig.admin + "x", long] {
                let answer = try await rig.send(route.method, route.target, key: key)
                #expect(answer.verdict == "401 unauthenticated")
                #expect(answer.header("WWW-Authenticate")?.hasPrefix("Bearer") == true)
            }
        }
        let basic = try await rig.send("GET", "/v1/ledger", headers: [("Authorization", "Basic abc")])
        #expect(basic.verdict == "401 unauthenticated")
        let lower = try await rig.send("GET", "/v1/ledger", headers: [("authorization", "bearer  " + rig.admin)])
        #expect(lower.status == 200)
    }

    @Test("a revoked key is refused as soon as it is no longer remembered")
    func revocation() async throws {
        var limits = Application.Limits()
        limits.keyLifetime = .zero
        let rig = try await ServiceRig.make(limits: limits)
        let (key, secret) = try await rig.keys.create(name: "k", scopes: [.admin])
        #expect(try await rig.send("GET", "/v1/ledger", key: secret).status == 200)
        #expect(try await rig.keys.revoke(key.id))
        #expect(try await rig.send("GET", "/v1/ledger", key: secret).verdict == "401 unauthenticated")
    }

    @Test("a remembered key needs no database, and is not remembered for long")
    func remembered() async throws {
        #expect(Application.Limits().keyLifetime <= .seconds(5))
        let rig = try await ServiceRig.make()
        #expect(try await rig.get("/v1/ledger").status == 200)
        await rig.pool.close()
        #expect(try await rig.get("/v1/ledger").verdict == "503 unavailable")
        #expect(try await rig.get("/metrics").text.contains("rightful_database_up 0"))
        let unknown = try await rig.send("GET", "/v1/ledger", key: "rightful_sk_other")
        #expect(unknown.verdict == "503 unavailable")
    }

    @Test("a path that is none is not_found, a method that is none names those that are")
    func routing() async throws {
        let rig = try await ServiceRig.make()
        for path in ["/", "/v1", "/v1/customers/c", "/v1/ledger/", "/v1/ledger/x", "/V1/ledger"] {
            #expect(try await rig.get(path).verdict == "404 not_found")
        }
        let answer = try await rig.send("DELETE", "/v1/catalog", key: rig.admin)
        #expect(answer.verdict == "405 method_not_allowed")
        #expect(answer.header("Allow") == "GET, HEAD, PUT")
        #expect(try await rig.send("GET", "/v1/notifications/appstore").header("Allow") == "POST")
        #expect(try await rig.send("HEAD", "/healthz").status == 200)
    }
}
