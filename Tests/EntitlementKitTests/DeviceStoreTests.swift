import Testing

@testable import EntitlementKit

@Suite("Kit: verification results of the store")
struct DeviceStoreTests {
    @Test("a statement is believed unless the device says why not")
    func statements() {
        #expect(SignedStatement(jws: "a.b.c").unverifiedReason == nil)
        #expect(SignedStatement(jws: "a.b.c", unverifiedReason: "revoked").unverifiedReason == "revoked")
    }
}
