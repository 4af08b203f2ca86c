/// How many P-256 signatures OpenSSL itself verifies in a second, by its own measurement.
struct OpenSSLSpeed {
    /// What it measured.
    struct Result: Sendable {
        /// By the clock, on all cores at once.
        let perSecond: Double
        /// Processor time of one verification, in microseconds.
        let processorMicroseconds: Double

        /// What all cores could do if nobody else had any of them.
        var capacity: Double { Double(Machine.cores) * 1e6 / processorMicroseconds }
    }

    let directory: WorkDirectory

    /// Verifies on all cores at once.
    func verify(seconds: Double) throws -> Result {
        let whole = max(1, Int(seconds.rounded()))
        let program = try ChildProgram(
            [
                "/usr/bin/env", "openssl", "speed", "-mr", "-elapsed", "-seconds", "\(whole)", "-multi",
                "\(Machine.cores)", "ecdsap256",
            ], in: directory)
        let (output, ending) = try program.finish(limit: .seconds(2 * whole + 30))
        // +F4:number:bits:signatures a second:verifications a second, summed over the processes
        let line = output.split(separator: "\n").last { $0.hasPrefix("+F4:") }
        guard let last = line?.split(separator: ":").last, let perSecond = Double(last), perSecond > 0 else {
            throw BenchmarkFailure("openssl speed printed no result: \(output.suffix(200))")
        }
        // Signing is measured first, for as long.
        let processor = ending.processorTime / .microseconds(1) / 2
        return Result(perSecond: perSecond, processorMicroseconds: processor / (perSecond * Double(whole)))
    }
}
