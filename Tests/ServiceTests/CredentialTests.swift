import EntitlementCore
import HTTPServer
import Testing

@testable import Ledger
@testable import Service

@Suite("Credentials")
struct CredentialTests {
    private static func key(
        _ scopes: Set<APIScope>, isPublishable: Bool = false, environment: StoreEnvironment? = nil
    ) -> Credential {
        Credential(
            APIKey(
                id: "key_1", name: "k", isPublishable: isPublishable, scopes: scopes, environment: environment,
                bundleID: "com.example.app", createdAt: .earliest, revokedAt: nil))
    }

    private static func token(_ customer: String) throws -> Credential {
        .customerToken(
            CustomerTokenClaims(
                customerID: try #require(CustomerID(customer)), environment: .sandbox, bundleID: "com.example.app",
                issuedAt: .earliest, expiresAt: .latest))
    }

    private static func passes(_ credential: Credential, _ access: Route.Access, _ customer: String?) -> Bool {
        do throws(Problem) {
            try credential.check(for: access, customer: customer.flatMap { CustomerID($0) })
            return true
        } catch {
            #expect(error.code == .forbidden)
            return false
        }
    }

    @Test("a device may reconcile with a publishable key or its customer's token, a server with customers:write")
    func reconcile() throws {
        #expect(Self.passes(Self.key([], isPublishable: true), .device, "c-1"))
        #expect(Self.passes(Self.key([.customersWrite]), .device, "c-1"))
        #expect(Self.passes(Self.key([.admin]), .device, "c-1"))
        #expect(!Self.passes(Self.key([.customersRead, .eventsRead, .catalogWrite, .metrics]), .device, "c-1"))
        #expect(Self.passes(try Self.token("c-1"), .device, "c-1"))
        #expect(!Self.passes(try Self.token("c-1"), .device, "c-2"))
        #expect(!Self.passes(try Self.token("c-1"), .device, nil))
    }

    @Test("a token is its customer's byte for byte, and a UUID's in any case")
    func customers() throws {
        #expect(!Self.passes(try Self.token("caf\u{E9}"), .device, "cafe\u{301}"))
        #expect(Self.passes(try Self.token(Purchase.customer), .device, Purchase.customer.uppercased()))
        #expect(!Self.passes(try Self.token("c-1"), .device, "C-1"))
    }

    @Test("what ships in an app or lies on a device may do nothing else, whatever its scopes say")
    func nothingElse() throws {
        for scope in APIScope.allCases {
            #expect(!Self.passes(Self.key([.admin], isPublishable: true), .scope(scope), "c-1"))
            #expect(!Self.passes(try Self.token("c-1"), .scope(scope), "c-1"))
            // One that is bound to an app does not write what holds for all of them.
            #expect(Self.passes(Self.key([.admin]), .scope(scope), nil) == (scope != .catalogWrite))
        }
    }

    @Test("a credential for one environment is refused the other, and means its own where none is named")
    func environments() throws {
        func asked(_ credential: Credential?, _ query: String) throws -> String {
            let request = try HTTPRequest(head: .init(method: "POST", target: "/v1/x" + query))
            let call = Call(
                request: request, parameters: [:], credential: credential, operation: .readEntitlements)
            do throws(Problem) { return try call.environment().rawValue } catch { return error.code.rawValue }
        }
        let table: [(Credential?, String, String, String)] = [
            (nil, "production", "production", "sandbox"),
            (Self.key([.admin]), "production", "production", "sandbox"),
            (Self.key([.admin], environment: .sandbox), "sandbox", "forbidden", "sandbox"),
            (Self.key([], isPublishable: true, environment: .sandbox), "sandbox", "forbidden", "sandbox"),
            (try Self.token("c-1"), "sandbox", "forbidden", "sandbox"),
        ]
        for (credential, unnamed, production, sandbox) in table {
            #expect(try asked(credential, "") == unnamed)
            #expect(try asked(credential, "?environment=production") == production)
            #expect(try asked(credential, "?environment=sandbox") == sandbox)
        }
    }
}
