import Foundation
import Glibc
import TestSupport
import Testing

/// A directory of mode 0700, as `mkdtemp` makes it, for as long as `body` runs.
func withScratchDirectory(_ body: (String) async throws -> Void) async throws {
    var template = Array("\(ScratchSpace.directory.path())/embedded-XXXXXX".utf8CString)
    let made = try #require(mkdtemp(&template))
    let path = String(cString: made)
    defer { try? FileManager.default.removeItem(atPath: path) }
    try await body(path)
}
