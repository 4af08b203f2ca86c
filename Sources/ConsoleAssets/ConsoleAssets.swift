internal import CConsoleFiles

/// A file of the console's page, byte for byte as it stands in the repository.
package struct ConsoleAsset: Sendable {
    package let name: String
    /// As HTTP says it.
    package let contentType: String
    package let bytes: [UInt8]

    fileprivate init(_ file: console_file) {
        name = String(cString: file.name)
        // No text has a zero in it.
        bytes = Array(String(cString: file.text).utf8)
        let types = ["html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"]
        let ending = name.split(separator: ".").last.map(String.init) ?? ""
        contentType = "\(types[ending] ?? "text/plain"); charset=utf-8"
    }
}

/// The page of the console: no tool makes it, and nothing of it is read from disk at run time.
package enum ConsoleAssets {
    /// The most that the page weighs with a customer on it, in bytes; what other screens need comes when they are opened.
    package static let weightLimit = 150_000

    package static let all: [ConsoleAsset] = {
        var count = 0
        let files = console_files(&count)
        return UnsafeBufferPointer(start: files, count: count).map(ConsoleAsset.init)
    }()

    /// The page itself, which asks for the others.
    package static let page = all[0]
}
