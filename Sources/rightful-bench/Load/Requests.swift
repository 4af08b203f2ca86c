import Foundation

/// Prepared requests in files, each after its length in eight digits and a newline.
enum Requests {
    /// Writes requests in turn to as many files; the file's number follows its name.
    ///
    /// They are on the disk when this returns. Else the system writes these hundreds of megabytes back while a row is
    /// measured, and the commits that it measures wait for them.
    static func write(_ requests: [[UInt8]], to path: String, files: Int) throws {
        for number in 0..<files {
            guard let file = fopen("\(path)\(number)", "w") else { throw BenchmarkFailure("cannot write \(path)") }
            defer { fclose(file) }
            for index in stride(from: number, to: requests.count, by: files) {
                let length = String(requests[index].count)
                let head = String(repeating: "0", count: 8 - length.count) + length + "\n"
                guard fwrite(Array(head.utf8), 1, 9, file) == 9,
                    fwrite(requests[index], 1, requests[index].count, file) == requests[index].count
                else { throw BenchmarkFailure("cannot write \(path)\(number): the disk is full") }
            }
            guard fflush(file) == 0, fsync(fileno(file)) == 0 else {
                throw BenchmarkFailure("cannot write \(path)\(number): \(String(cString: strerror(errno)))")
            }
        }
    }

    /// Reads such a file.
    static func read(_ path: String) throws -> [[UInt8]] {
        let bytes = try Data(contentsOf: URL(filePath: path), options: .mappedIfSafe)
        var requests: [[UInt8]] = []
        var start = bytes.startIndex
        while start + 9 <= bytes.endIndex {
            guard let length = Int(String(decoding: bytes[start..<start + 8], as: UTF8.self)) else {
                throw BenchmarkFailure("\(path) holds no prepared requests")
            }
            requests.append([UInt8](bytes[start + 9..<start + 9 + length]))
            start += 9 + length
        }
        return requests
    }
}
