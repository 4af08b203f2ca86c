internal import Foundation
internal import Glibc

/// The directory in which a service keeps what is its own.
package enum DataDirectory {
    /// Makes it where it is missing, and those above it, for nobody but its owner.
    package static func make(_ path: String) throws(EmbeddedPostgresError) {
        do {
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            // Foundation's error is for programs; what lies beneath it is the system's, which has words.
            let cause = (error as? CocoaError)?.underlying as? POSIXError
            let reason = cause.map { String(cString: strerror($0.code.rawValue)) } ?? error.localizedDescription
            throw EmbeddedPostgresError(.directory, "cannot make the data directory (data_dir) \(path): \(reason)")
        }
    }
}
