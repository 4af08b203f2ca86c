package import Dispatch
package import Foundation

extension FileHandle {
    /// All that comes until the other end is closed.
    ///
    /// It is waited for on a thread of its own: Swift has as many as there are processors, and where each of them waited for
    /// the end of a pipe, nobody would be left to close one.
    package func untilEnd(after delay: DispatchTimeInterval = .seconds(0)) async throws -> Data {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue(label: "pipe").asyncAfter(deadline: .now() + delay) {
                continuation.resume(with: Result { try self.readToEnd() ?? Data() })
            }
        }
    }
}
