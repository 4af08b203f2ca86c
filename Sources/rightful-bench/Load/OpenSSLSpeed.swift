/// How many P-256 signatures OpenSSL itself verifies in a second, by its own measurement.
struct OpenSSLSpeed {
    let directory: WorkDirectory

    /// On all cores at once.
    func verificationsPerSecond(seconds: Double) throws -> Double {
        let whole = max(1, Int(seconds.rounded()))
        // Signing is measured first, for as long.
        let program = try ChildProgram(
            [
                "/usr/bin/env", "openssl", "speed", "-mr", "-seconds", "\(whole)", "-multi", "\(Machine.cores)",
                "ecdsap256",
            ], in: directory)
        let (output, _) = try program.finish(limit: .seconds(2 * whole + 30))
        // +F4:number:bits:signatures a second:verifications a second, summed over the processes
        let line = output.split(separator: "\n").last { $0.hasPrefix("+F4:") }
        guard let last = line?.split(separator: ":").last, let perSecond = Double(last) else {
            throw BenchmarkFailure("openssl speed printed no result: \(output.suffix(200))")
        }
        return perSecond
    }
}
