import Foundation

/// The processes of an installation's PostgreSQL.
struct ServerProcesses {
    let postmaster: pid_t
    /// Backends and helpers, in the order of their ids.
    let children: [pid_t]

    /// `nil` while there is no postmaster.
    init?(of installation: Installation) {
        guard let postmaster = installation.postmaster, kill(postmaster, 0) == 0 else { return nil }
        self.postmaster = postmaster
        let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc").compactMap { pid_t($0) }) ?? []
        children = all.filter { Self.parent(of: $0) == postmaster }.sorted()
    }

    /// The children that serve a connection of the service.
    var backends: [pid_t] {
        children.filter { id in
            let title = try? String(contentsOfFile: "/proc/\(id)/cmdline", encoding: .utf8)
            return title?.contains("rightful_serve") == true
        }
    }

    private static func parent(of id: pid_t) -> pid_t? {
        guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8) else { return nil }
        // Behind the name, which may hold anything, and the state.
        let fields = text[(text.lastIndex(of: ")") ?? text.startIndex)...].split(separator: " ")
        return fields.count > 2 ? pid_t(fields[2]) : nil
    }
}
