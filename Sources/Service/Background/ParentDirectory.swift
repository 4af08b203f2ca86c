extension String {
    /// The directory in which a path names something; `.` for a name alone.
    ///
    /// Foundation's `deletingLastPathComponent` ends the program on a path of a single character (Swift 6.3 on Linux).
    package var parentDirectory: String {
        let scalars = unicodeScalars
        let isSlash = { (scalar: Unicode.Scalar) in scalar == "/" }
        guard let end = scalars.lastIndex(where: { !isSlash($0) }) else { return isEmpty ? "." : "/" }
        guard let slash = scalars[...end].lastIndex(where: isSlash) else { return "." }
        guard let last = scalars[..<slash].lastIndex(where: { !isSlash($0) }) else { return "/" }
        return String(scalars[...last])
    }
}
