import EntitlementAPI
import Foundation

extension DiskState.File {
    /// What a file is to hold that lay in two places; `nil` where what lay in the former one is not understood.
    ///
    /// Rows are joined, and of what there is once the present word stands. Joining the same again changes nothing that counts.
    func joined(_ present: Data, former: Data) -> Data? {
        // The last line about something may be the one that counts.
        if self == .statements { return former + Data("\n".utf8) + present }
        guard let old = try? WireJSON.decode(WireValue.self, from: Array(former)) else { return nil }
        guard let new = try? WireJSON.decode(WireValue.self, from: Array(present)) else { return former }
        var members = new.members
        for (name, value) in old.members {
            guard case .array(let rows) = value else { continue }
            let own = new[name]?.entries ?? []
            members[name] = .array(rows.filter { !own.contains($0) } + own)
        }
        return (try? WireJSON.encode(WireValue.object(members))).map { Data($0) }
    }
}
