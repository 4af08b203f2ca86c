package import EntitlementCore

/// The clear customer ids a fact refers to, kept beside it and never in it.
///
/// A reference is an id's index in the list.
package struct IdentityList: Hashable, Sendable {
    package private(set) var customerIDs: [String] = []

    package init() {}

    /// A reference to a customer id, which is listed once however often it is referred to.
    ///
    /// Ids are the same byte for byte, as ``CustomerID``'s are.
    package mutating func reference(customerID: String) -> IdentityRef {
        let index = customerIDs.firstIndex { $0.utf8.elementsEqual(customerID.utf8) } ?? customerIDs.count
        if index == customerIDs.count { customerIDs.append(customerID) }
        return IdentityRef(Int64(index))
    }

    /// The default customer of an account token: the one whose id is that UUID in lower case.
    package mutating func reference(accountToken: String) -> IdentityRef {
        reference(customerID: normalizedUUID(accountToken).text)
    }

    /// The default customer of an app transaction id: the one with id `apple:` and that id.
    package mutating func reference(appTransactionID: String) -> IdentityRef {
        reference(customerID: "apple:" + appTransactionID)
    }
}

/// An id in the form in which it is compared: a UUID in lower case, anything else as it is.
func normalizedUUID(_ id: String) -> (text: String, isUUID: Bool) {
    CustomerID.isUUID(id) ? (id.lowercased(), true) : (id, false)
}

extension JSONObject {
    /// A field without which the payload is not what it was taken for.
    func mandatory<Value>(
        _ name: String, of payload: String, _ read: (JSONValue) -> Value?
    ) throws(PayloadError) -> Value {
        guard let value = self[name].flatMap(read) else {
            throw .inconsistent("\(payload) has no usable \(name)")
        }
        return value
    }
}
