import Foundation

extension String {
    /// The directory in which a path names something, relative where the path is.
    ///
    /// Not by `NSString`: its `deletingLastPathComponent` ends the program on a path of a single character (Swift 6.3 on Linux).
    package var parentDirectory: String { URL(fileURLWithPath: self).deletingLastPathComponent().relativePath }
}
