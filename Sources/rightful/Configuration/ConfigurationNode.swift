import AppStorePayloads
import EntitlementAPI
import Foundation
import Service

/// A value in the file and the path to it, such as `apps[0].bundle_id`.
struct ConfigurationNode {
    let path: String
    let file: String
    let value: WireValue

    /// The largest file read, in bytes.
    static let sizeLimit = 1 << 20

    /// Reads a whole file, whose root is an object.
    init(file: String, content: [UInt8]) throws(ConfigurationError) {
        guard content.count <= Self.sizeLimit else {
            throw ConfigurationError(file: file, "is larger than \(Self.sizeLimit) bytes")
        }
        guard let json = JSONValue(parsing: content),
            let value = try? JSONDecoder().decode(WireValue.self, from: Data(content))
        else { throw ConfigurationError(file: file, Self.fault(of: content)) }
        self.value = value
        if let name = json.repeatedMember {
            throw ConfigurationError(name, .file(file), "is there twice")
        }
        path = ""
        self.file = file
        guard case .object = value else {
            throw ConfigurationError(file: file, "must hold a JSON object, such as {\"listen\": \"127.0.0.1:8080\"}")
        }
    }

    /// What is wrong with a text that is not JSON, and on which line, as far as Foundation says.
    private static func fault(of content: [UInt8]) -> String {
        guard content.contains(where: { $0 > UInt8(ascii: " ") }) else { return "is empty; a JSON object is expected" }
        guard String(validating: content, as: UTF8.self) != nil else { return "is not text in UTF-8" }
        do {
            _ = try JSONSerialization.jsonObject(with: Data(content))
            return "is not valid JSON"
        } catch {
            let reason = (error as NSError).userInfo["NSDebugDescription"] as? String ?? ""
            if reason.contains("end of file") { return "is not valid JSON: it ends before its object does" }
            guard let place = reason.firstMatch(of: /character (\d+)/).flatMap({ Int($0.1) }) else {
                return "is not valid JSON"
            }
            let line = content.prefix(place).count { $0 == UInt8(ascii: "\n") } + 1
            return "is not valid JSON, from line \(line) on"
        }
    }

    private init(path: String, file: String, value: WireValue) {
        self.path = path
        self.file = file
        self.value = value
    }

    func error(_ problem: String) -> ConfigurationError { ConfigurationError(path, .file(file), problem) }

    /// The members of an object; one that is none of `known` is refused, and one that is null counts as absent.
    func members(_ known: [String]) throws(ConfigurationError) -> [String: ConfigurationNode] {
        guard case .object(let object) = value else { throw error("must be an object") }
        var members: [String: ConfigurationNode] = [:]
        for (name, value) in object.sorted(by: { $0.key < $1.key }) {
            let node = ConfigurationNode(path: path.isEmpty ? name : "\(path).\(name)", file: file, value: value)
            guard known.contains(name) else {
                throw node.error("is not a known key; known here are \(known.joined(separator: ", "))")
            }
            if case .null = value { continue }
            members[name] = node
        }
        return members
    }

    func elements(limit: Int) throws(ConfigurationError) -> [ConfigurationNode] {
        guard case .array(let values) = value else { throw error("must be a list") }
        guard values.count <= limit else { throw error("holds \(values.count) entries; at most \(limit) are taken") }
        return values.enumerated().map { index, value in
            ConfigurationNode(path: "\(path)[\(index)]", file: file, value: value)
        }
    }

    func string() throws(ConfigurationError) -> String {
        guard case .string(let text) = value else { throw error("must be a text in quotes") }
        guard !text.isEmpty else { throw error("must not be empty") }
        return text
    }

    func boolean() throws(ConfigurationError) -> Bool {
        guard case .bool(let value) = value else { throw error("must be true or false") }
        return value
    }

    func positiveInteger() throws(ConfigurationError) -> Int64 {
        guard case .int(let number) = value, number > 0 else { throw error("must be a whole number above 0") }
        return number
    }

    func wholeNumber() throws(ConfigurationError) -> Int64 {
        guard case .int(let number) = value, number >= 0 else { throw error("must be a whole number, 0 or more") }
        return number
    }

    /// A path, taken from the file's own directory when it is relative.
    func filePath() throws(ConfigurationError) -> String {
        let text = try string()
        if text.hasPrefix("/") { return text }
        let directory = file.parentDirectory
        return directory == "." ? text : (directory as NSString).appendingPathComponent(text)
    }
}

extension [String: ConfigurationNode] {
    /// A member that must be there.
    func required(_ name: String, of owner: ConfigurationNode) throws(ConfigurationError) -> ConfigurationNode {
        guard let node = self[name] else {
            throw ConfigurationError("\(owner.path).\(name)", .file(owner.file), "is missing")
        }
        return node
    }
}
