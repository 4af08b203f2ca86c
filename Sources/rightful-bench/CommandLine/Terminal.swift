import Foundation

/// Prints a line at once, also when nobody watches a terminal.
func say(_ line: String) {
    try? FileHandle.standardOutput.write(contentsOf: Data("\(line)\n".utf8))
}

/// Writes to standard error, as it is.
func complain(_ text: String) {
    try? FileHandle.standardError.write(contentsOf: Data(text.utf8))
}
