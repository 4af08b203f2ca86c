import AppStorePayloads
import EntitlementAPI

extension WireValue {
    /// A payload that a store signed, to be shown as its facts were read from it: of a name that stands there twice the last
    /// counts.
    ///
    /// `nil` for what is no JSON, or lies deeper than any document here may.
    init?(payload: [UInt8]) {
        guard let json = JSONValue(parsing: payload) else { return nil }
        self.init(json, levels: WireJSON.depthLimit)
    }

    private init?(_ json: JSONValue, levels: Int) {
        if let text = json.string {
            self = .string(text)
        } else if let number = json.int64 {
            self = .int(number)
        } else if let number = json.double {
            self = .double(number)
        } else if let flag = json.bool {
            self = .bool(flag)
        } else if let object = json.object {
            guard levels > 0 else { return nil }
            var members: [String: WireValue] = [:]
            for (name, value) in object.members {
                guard let value = WireValue(value, levels: levels - 1) else { return nil }
                members[name] = value
            }
            self = .object(members)
        } else if let array = json.array {
            guard levels > 0 else { return nil }
            var elements: [WireValue] = []
            for element in array {
                guard let element = WireValue(element, levels: levels - 1) else { return nil }
                elements.append(element)
            }
            self = .array(elements)
        } else {
            self = .null
        }
    }
}
