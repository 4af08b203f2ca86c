import Foundation

/// A value that must not be printed; only `reveal()` gives it away.
struct Secret: Sendable {
    private let value: String

    init(_ value: String) { self.value = value }

    /// The value itself, for whoever needs it to connect or to sign.
    func reveal() -> String { value }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    var description: String { "(secret)" }
    var debugDescription: String { description }
    var customMirror: Mirror { Mirror(self, children: []) }

    /// A database's URL without its password and parameters; nothing of what is not a URL.
    var redactedDatabaseURL: String {
        guard let components = URLComponents(string: value), let scheme = components.scheme else { return description }
        var text = "\(scheme)://"
        if let user = components.user { text += components.password == nil ? "\(user)@" : "\(user):***@" }
        text += components.host ?? ""
        if let port = components.port { text += ":\(port)" }
        return text + components.path
    }
}
