import EntitlementCore
import OpenSSLCrypto
import Testing

@testable import Ledger

@Suite("Checkpoints and signed notes")
struct CheckpointTests {
    private static func key(_ name: String = "example.com/log") throws -> LogKey {
        LogKey(name: name, privateKey: try .generate())
    }

    @Test("a note that another implementation signed is recognised: the example of Go's package sumdb/note")
    func foreign() throws {
        let key = try #require(LogVerifier("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"))
        let text = """
            If you think cryptography is the answer to your problem,
            then you don't know what your problem is.

            — PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=

            """
        let note = try #require(SignedNote(text))
        #expect(note.isSigned(by: key))
        #expect(note.note == text)
        #expect(try #require(SignedNote(text.replacing("answer", with: "enemy"))).isSigned(by: key) == false)
        #expect(key.text == "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
        #expect(LogVerifier("PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW") == nil)
    }

    @Test("a checkpoint is read as it was written, and only its own key has signed it")
    func roundTrip() throws {
        let root = try #require(Digest([UInt8](repeating: 0xFE, count: 32)))
        let checkpoint = Checkpoint(origin: "example.com/log", size: 1234, root: root)
        #expect(
            checkpoint.text == "example.com/log\n1234\n/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v4=\n")
        let (key, other) = (try Self.key(), try Self.key())
        let note = try #require(SignedNote(try SignedNote(checkpoint.text, signedBy: key).note))
        #expect(Checkpoint(text: note.text) == checkpoint)
        #expect(note.isSigned(by: key.verifier))
        #expect(!note.isSigned(by: other.verifier))
        #expect(LogVerifier(key.verifier.text) == key.verifier)
        let again = try Ed25519PrivateKey(pem: key.privateKey.pem())
        #expect(again.publicKey == key.verifier.publicKey)
    }

    @Test(
        "what is no checkpoint is not taken for one",
        arguments: [
            "", "a\n1\n", "a\n1\nAAAA\n", "a b\n1\n/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v4=\n",
            "a\n01\n/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v4=\n",
            "a\n-1\n/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v4=\n",
            "a\n1\n/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v4=",
            "a+b\n1\n/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v4=\n",
        ])
    func malformed(text: String) {
        #expect(Checkpoint(text: text) == nil)
    }

    @Test(
        "what is no note is not taken for one",
        arguments: [
            "", "\n", "text\n", "text\n\n", "text\n\n— a AAAA\n", "text\n\n- a AAAAAAAA\n", "text\n\n— a AAAAAAAA",
        ])
    func malformedNote(text: String) {
        #expect(SignedNote(text) == nil)
    }
}
