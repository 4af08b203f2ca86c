internal import Glibc

/// Where a PostgreSQL server's programs are, and of which major version.
struct PostgresInstallation {
    static let oldestMajor = 15

    let programs: String
    let major: Int

    func program(_ name: String) -> String { "\(programs)/\(name)" }

    /// Finds the newest installation, or the one of the major version that made an existing cluster.
    ///
    /// Looks where Debian and Red Hat put servers, where `pg_config` points, then in `searchPath`.
    static func find(major wanted: Int?, searchPath: String) throws(EmbeddedPostgresError) -> PostgresInstallation {
        let path = searchPath.split(separator: ":").map(String.init)
        var places = matches(of: "/usr/lib/postgresql/*/bin") + matches(of: "/usr/pgsql-*/bin")
        if let config = path.lazy.map({ "\($0)/pg_config" }).first(where: isExecutable) {
            let (status, output) = try ChildProcess.run([config, "--bindir"])
            if status == 0 { places += output.split(whereSeparator: \.isNewline).map(String.init) }
        }
        places += path
        var found: [PostgresInstallation] = []
        for place in places where isExecutable("\(place)/initdb") && isExecutable("\(place)/postgres") {
            if let major = try major(of: "\(place)/postgres") {
                found.append(PostgresInstallation(programs: place, major: major))
            }
        }
        if let wanted {
            guard wanted >= oldestMajor else {
                throw EmbeddedPostgresError(
                    .notInstalled,
                    "the data directory was made by PostgreSQL \(wanted), and \(oldestMajor) is the oldest that can be used"
                )
            }
            if let match = found.first(where: { $0.major == wanted }) { return match }
            throw EmbeddedPostgresError(
                .notInstalled,
                "the data directory was made by PostgreSQL \(wanted), which is not installed "
                    + "(Debian: apt-get install postgresql-\(wanted))")
        }
        if let newest = found.max(by: { $0.major < $1.major }), newest.major >= oldestMajor { return newest }
        throw EmbeddedPostgresError(
            .notInstalled,
            "no PostgreSQL server \(oldestMajor) or later is installed (Debian: apt-get install postgresql); "
                + "or name a database by its URL")
    }

    /// Reads `postgres (PostgreSQL) 15.18 (Debian …)`.
    private static func major(of server: String) throws(EmbeddedPostgresError) -> Int? {
        let (status, output) = try ChildProcess.run([server, "-V"])
        guard status == 0 else { return nil }
        let version = output.split(separator: " ").first { $0.first?.isNumber == true }
        return version.flatMap { Int($0.prefix { $0.isNumber }) }
    }

    private static func matches(of pattern: String) -> [String] {
        var found = glob_t()
        defer { globfree(&found) }
        guard glob(pattern, 0, nil, &found) == 0 else { return [] }
        return (0..<Int(found.gl_pathc)).compactMap { found.gl_pathv[$0].map { String(cString: $0) } }
    }
}
