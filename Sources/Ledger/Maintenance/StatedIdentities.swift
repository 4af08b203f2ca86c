import EntitlementCore

/// Whom the store's signed bytes name, also where no fact is taken from it, such as by renewal information.
enum StatedIdentities {
    /// The account tokens and app transaction ids in evidence, as the table `identity` has them.
    ///
    /// - Parameter steps: decompressed; what was not taken apart is not looked into.
    static func all(in steps: [UInt8]) -> Set<ExactText> {
        let texts = steps.split(separator: UInt8(ascii: "\""), omittingEmptySubsequences: false)
        var found: Set<ExactText> = []
        // Name, colon and value.
        for place in texts.indices.dropLast(2) where isColon(texts[place + 1]) {
            let value = String(decoding: texts[place + 2], as: UTF8.self)
            let customer =
                if texts[place].elementsEqual("appAccountToken".utf8) {
                    CustomerID(value)
                } else if texts[place].elementsEqual("appTransactionId".utf8), !value.isEmpty {
                    CustomerID.ofAppTransaction(value)
                } else {
                    CustomerID?.none
                }
            if let customer { found.insert(ExactText(customer.value)) }
        }
        return found
    }

    private static func isColon(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.contains(UInt8(ascii: ":")) && bytes.allSatisfy { ":\t\n\r ".utf8.contains($0) }
    }
}
