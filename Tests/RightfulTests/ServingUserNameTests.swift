import Glibc
import Testing

@testable import rightful

@Suite("The user whom a service's connection names")
struct ServingUserNameTests {
    @Test("is the one who runs it, also where PgBouncer adds who connected to it, and nobody in other names")
    func names() {
        let name = ServingUser.applicationName(0)
        #expect(ServingUser.user(in: name) == "root")
        #expect(ServingUser.user(in: name + " - 127.0.0.1:55626") == "root")
        #expect(ServingUser.user(in: name + " - unix(1234):6432") == "root")
        #expect(ServingUser.user(in: "psql") == nil)
    }
}
