import Foundation

/// How long the random campaigns are, which `deploy/test` says in two variables.
package enum Campaign {
    /// 1, or as many times as long as `deploy/test --soak` says.
    package static let factor = max(1, Int(environment["RIGHTFUL_TEST_FACTOR"] ?? "") ?? 1)

    /// The seeds from 1 to `usual`, times the factor.
    ///
    /// `deploy/test` without `--all` runs the first third of the usual ones, but at least one, so that it can be waited for
    /// between two changes.
    package static func seeds(_ usual: Int) -> ClosedRange<UInt64> {
        let isShort = environment["RIGHTFUL_TEST_SHORT"] != nil
        return 1...UInt64(isShort ? max(1, usual / 3) : usual * factor)
    }

    private static var environment: [String: String] { ProcessInfo.processInfo.environment }
}
