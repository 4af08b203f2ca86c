import Foundation

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
        let asked = try JSONEncoder().encode(Question(key_set: keySet, passes: passes))
        try await process.runWithAllSignals()
        async let outputText = Installation.read(output)
        async let errorText = Installation.read(errors)
        // One that ended at once takes no more; its exit status says so.
        try? input.fileHandleForWriting.write(contentsOf: asked)
        try input.fileHandleForWriting.close()
        let (verdicts, complaint) = await (outputText, errorText)
        process.waitUntilExit()
        if complaint.contains("No module named 'jwcrypto'") {
            throw Missing(description: "python3-jwcrypto is missing: apt-get install it, or run deploy/test")
        }
        guard process.terminationStatus == 0 else {
            throw CommandFailure(arguments: [python], status: process.terminationStatus, errors: complaint)
        }
        return try JSONDecoder().decode([[String]].self, from: Data(verdicts.utf8)).map { verdict in
            verdict[0] == "claims" ? .claims(verdict[1]) : .refused(verdict[1])
        }
    }

    private struct Question: Encodable {
        let key_set: String
        let passes: [String]
    }
}
