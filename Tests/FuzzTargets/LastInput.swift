import Foundation

/// Keeps the input that is being read, so that a process which dies of it can still say what it was.
package enum LastInput {
    private static let capacity = 256 << 10
    /// Read by the handlers of fatal signals; written by the one thread that runs inputs.
    nonisolated(unsafe) private static var text = UnsafeMutablePointer<CChar>.allocate(capacity: capacity)
    nonisolated(unsafe) private static var length = 0

    private static let handlers: Void = {
        for number in [SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGABRT] {
            signal(number) { number in
                _ = write(STDERR_FILENO, LastInput.text, LastInput.length)
                signal(number, SIG_DFL)
                raise(number)
            }
        }
    }()

    /// Remembers an input, and prints it should the process die.
    ///
    /// - Parameter name: says how to make the input again.
    package static func keep(_ input: [UInt8], _ name: String) {
        _ = handlers
        let line = Array("died of \(name): \(hex(input))\n".utf8.prefix(capacity))
        length = 0
        line.withUnsafeBytes { bytes in
            UnsafeMutableRawBufferPointer(start: text, count: capacity).copyMemory(from: bytes)
        }
        length = line.count
    }

    /// Bytes as hexadecimal digits.
    package static func hex(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}
