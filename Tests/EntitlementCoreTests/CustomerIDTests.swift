import EntitlementCore
import Testing

@Suite("Customer ids")
struct CustomerIDTests {
    @Test("ids are compared by their bytes, and UUIDs in lower case")
    func comparison() throws {
        let spellings = try ["jos\u{E9}", "jose\u{301}"].map { try #require(CustomerID($0)) }
        #expect(spellings[0] != spellings[1] && Set(spellings).count == 2)
        #expect(spellings[0] == CustomerID("jos\u{E9}"))
        let id = "8b0c7d2e-0000-4000-8000-00000000abcd"
        #expect(CustomerID(id) == CustomerID(id.uppercased()))
        #expect(Set([CustomerID(id), CustomerID(id.uppercased())]).count == 1)
    }

    @Test("an app transaction's customer is known by the bytes before its id", arguments: ["1", "\u{301}1"])
    func appTransaction(_ id: String) throws {
        let customer = try #require(CustomerID.ofAppTransaction(id))
        #expect(customer.appTransactionID.map { Array($0.utf8) } == Array(id.utf8))
        #expect(CustomerID("apple-1")?.appTransactionID == nil)
    }
}
