import Dispatch
import Foundation

#if os(iOS) || os(tvOS) || os(watchOS) || os(visionOS)
import CoreFoundation
#endif

/// What a process does that may be suspended any moment, and must not be in the middle of it.
///
/// iOS ends a process, with 0xdead10cc, that holds a lock of a file in an App Group while it is suspended: the app's extensions
/// would wait for it.
///
/// Source: "Addressing the crash reasons in a crash report" and "performExpiringActivity(withReason:using:)" of `ProcessInfo`
/// in Apple's documentation.
struct ExpiringActivity: Sendable {
    /// What the system calls, on a thread of its own: with false where the process goes on until the call returns; with true
    /// where it does not, or will not much longer.
    typealias Block = @Sendable (_ isExpired: Bool) -> Void

    /// Asks the system to call a block, once or twice.
    let begin: @Sendable (@escaping Block) -> Void

    /// That of a system that suspends processes; `nil` on others.
    static var ofSystem: Self? {
        #if os(iOS) || os(tvOS) || os(watchOS) || os(visionOS)
        Self { block in
            ProcessInfo.processInfo.performExpiringActivity(withReason: "EntitlementKit writes a file", using: block)
        }
        #else
        nil
        #endif
    }

    /// Does something as one that the system lets end.
    ///
    /// - Throws: where the process is about to be suspended, so that nothing was begun; else what `body` throws.
    func run<Answer>(isolation: isolated (any Actor)? = #isolation, _ body: () throws -> Answer) async throws -> Answer
    {
        let work = DispatchGroup()
        work.enter()
        defer { work.leave() }
        let answers = AsyncStream<Bool> { answer in
            begin { isExpired in
                answer.yield(isExpired)
                answer.finish()
                // As soon as this returns the process may be suspended.
                work.wait()
            }
        }
        guard await answers.first(where: { _ in true }) == false else { throw POSIXError(.ECANCELED) }
        return try body()
    }
}
