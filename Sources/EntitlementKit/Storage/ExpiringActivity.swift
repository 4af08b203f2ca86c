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

    /// How long the system is waited for.
    ///
    /// Where it never answers a file is written all the same, because a purchase must come to the disk; the process may then be
    /// suspended while it writes.
    var patience = Duration.seconds(5)
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
        // An AsyncStream ends when the task that waits for it is cancelled, and what such a task saves must come to the disk.
        let answer = FirstAnswer<Bool>()
        begin { isExpired in
            Task { await answer.give(isExpired) }
            // As soon as this returns the process may be suspended.
            work.wait()
        }
        let timer = Task { [patience] in
            guard (try? await Task.sleep(for: patience)) != nil else { return }
            await answer.give(nil)
        }
        defer { timer.cancel() }
        guard await answer.wait() != true else { throw POSIXError(.ECANCELED) }
        return try body()
    }
}
