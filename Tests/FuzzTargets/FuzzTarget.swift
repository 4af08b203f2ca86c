/// What an input has shown that must not be.
package struct FuzzFinding: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// Something that reads bytes of strangers, and what must hold whatever they are.
///
/// A crash, a hang and memory without bound are found by whoever runs it.
package struct FuzzTarget: Sendable {
    /// How the bytes are made up, for mutations that keep their form.
    package enum Form: Sendable {
        case bytes, json, jws, text
    }

    /// Also the name of its directory in the corpus.
    package let name: String
    package let form: Form
    /// Reads an input, and tells whether it was taken for what it should be; throws where something does not hold.
    package let run: @Sendable ([UInt8]) throws(FuzzFinding) -> Bool

    init(_ name: String, _ form: Form, _ run: @escaping @Sendable ([UInt8]) throws(FuzzFinding) -> Bool) {
        self.name = name
        self.form = form
        self.run = run
    }

    /// Every target; they share what the corpus holds of genuine material.
    package static func all(_ corpus: FuzzCorpus) throws -> [FuzzTarget] {
        try signed(corpus) + canonical() + documents() + words() + [stripe()]
    }

    /// Throws a finding unless a condition holds.
    static func require(_ condition: Bool, _ text: @autoclosure () -> String) throws(FuzzFinding) {
        if !condition { throw FuzzFinding(text()) }
    }
}
