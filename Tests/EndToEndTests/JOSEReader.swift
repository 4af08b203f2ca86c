import Foundation
import TestSupport

/// Debian's python3-jwcrypto in a process of its own: a reader of signed tokens that shares nothing with this service.
///
/// It is given a key set and passes, as any backend would be, and nothing else.
enum JOSEReader {
    enum Verdict: Hashable, Sendable {
        /// Verified: the claims, as JSON.
        case claims(String)
        /// The name of jwcrypto's exception.
        case refused(String)

        var isVerified: Bool { if case .claims = self { true } else { false } }
    }

    struct Missing: Error, CustomStringConvertible {
        let description: String
    }

    private static let python = "/usr/bin/python3"

    private static let script = """
        import json, sys
        from jwcrypto import jwk, jwt

        asked = json.load(sys.stdin)
        keys = jwk.JWKSet.from_json(asked["key_set"])
        verdicts = []
        for text in asked["passes"]:
            token = jwt.JWT(algs=["ES256"], check_claims={"iss": "rightful", "exp": None})
            token.leeway = 0
            try:
                token.deserialize(text, keys)
                verdicts.append(["claims", token.claims])
            except Exception as refusal:
                verdicts.append(["refused", type(refusal).__name__])
        json.dump(verdicts, sys.stdout)
        """

    /// What it makes of each pass.
    static func read(_ passes: [String], keySet: String) async throws -> [Verdict] {
        let answer = try await python(script, Question(key_set: keySet, passes: passes))
        return try JSONDecoder().decode([[String]].self, from: answer).map { verdict in
            verdict[0] == "claims" ? .claims(verdict[1]) : .refused(verdict[1])
        }
    }

    /// What a recipe's function `entitlements` returns for each case, joined, or the name of the error that it raises.
    ///
    /// - Parameter cases: a pass, the customer, the app and the environment of each.
    static func run(_ recipe: String, on cases: [[String]], keySet: String) async throws -> [String] {
        let script =
            recipe + """

                import sys
                asked = json.load(sys.stdin)
                verdicts = []
                for text, customer, app, environment in asked["cases"]:
                    try:
                        held = entitlements(text, asked["key_set"], customer, app, environment)
                        verdicts.append(" ".join(sorted(held)))
                    except Exception as refusal:
                        verdicts.append(type(refusal).__name__)
                json.dump(verdicts, sys.stdout)
                """
        let answer = try await python(script, Cases(key_set: keySet, cases: cases))
        return try JSONDecoder().decode([String].self, from: answer)
    }

    /// Runs a script on a question, both in JSON.
    private static func python(_ script: String, _ question: some Encodable) async throws -> Data {
        guard FileManager.default.isExecutableFile(atPath: python) else {
            throw Missing(description: "there is no \(python); apt-get install python3-jwcrypto, or run deploy/test")
        }
        let process = Process()
        process.executableURL = URL(filePath: python)
        process.arguments = ["-c", script]
        // Nobody else's Python and packages.
        process.environment = ["PATH": "/usr/bin:/bin"]
        let (input, output, errors) = (Pipe(), Pipe(), Pipe())
        (process.standardInput, process.standardOutput, process.standardError) = (input, output, errors)
        let asked = try JSONEncoder().encode(question)
        try await process.runWithAllSignals()
        async let outputText = Installation.read(output)
        async let errorText = Installation.read(errors)
        // One that ended at once takes no more; its exit status says so.
        try? input.fileHandleForWriting.write(contentsOf: asked)
        try input.fileHandleForWriting.close()
        let (verdicts, complaint) = await (outputText, errorText)
        let status = process.waitForEnd()
        if complaint.contains("No module named 'jwcrypto'") {
            throw Missing(description: "python3-jwcrypto is missing: apt-get install it, or run deploy/test")
        }
        guard status == 0 else {
            throw CommandFailure(arguments: [python], status: status, errors: complaint)
        }
        return Data(verdicts.utf8)
    }

    private struct Cases: Encodable {
        let key_set: String
        let cases: [[String]]
    }

    private struct Question: Encodable {
        let key_set: String
        let passes: [String]
    }
}
