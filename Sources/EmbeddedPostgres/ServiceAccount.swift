package import Glibc

/// An account of the operating system that is not root: as whom PostgreSQL runs, and the service itself.
package struct ServiceAccount: Sendable, Equatable {
    /// What the account is called as which root has everything run that need not be root.
    ///
    /// It is of this program's own: whoever may act as an account that runs something else too, such as `postgres`, could
    /// read and change the ledger.
    package static let ownName = "rightful"

    package let user: uid_t
    package let group: gid_t
    package let name: String
    package let home: String

    /// The account that root hands over to; throws, and says how to make it, where the system has none.
    package static func own() throws(EmbeddedPostgresError) -> ServiceAccount {
        guard let account = find(ownName) else {
            throw EmbeddedPostgresError(
                .account,
                "started as root, which serves nobody, and there is no account '\(ownName)' to serve as: make one "
                    + "(useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "
                    + "\(ownName)), or start as another user than root")
        }
        guard account.user != 0, account.group != 0 else {
            throw EmbeddedPostgresError(
                .account,
                "the account '\(ownName)', to serve as, has the rights of root; give it a user and a group of its own")
        }
        return account
    }

    /// As whom a program started by the current user has PostgreSQL run.
    static func ofServer() throws(EmbeddedPostgresError) -> ServiceAccount {
        if geteuid() == 0 { return try own() }
        guard let account = find(geteuid()) else {
            throw EmbeddedPostgresError(
                .account,
                "the user \(geteuid()) has no name on this machine, and PostgreSQL needs one: add it to /etc/passwd")
        }
        return account
    }

    /// What a user is called, or else its number.
    package static func name(of user: uid_t) -> String { find(user)?.name ?? "\(user)" }

    private static func find(_ name: String) -> ServiceAccount? { read { getpwnam_r(name, $0, $1, $2, $3) } }
    private static func find(_ user: uid_t) -> ServiceAccount? { read { getpwuid_r(user, $0, $1, $2, $3) } }

    /// The longest entry read, in bytes.
    private static let entryLimit = 64 << 10

    private static func read(
        _ body: (
            UnsafeMutablePointer<passwd>, UnsafeMutablePointer<CChar>, Int,
            UnsafeMutablePointer<UnsafeMutablePointer<passwd>?>
        )
            -> Int32
    ) -> ServiceAccount? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: entryLimit) { buffer in
            guard let base = buffer.baseAddress else { return nil }
            var (entry, found) = (passwd(), nil as UnsafeMutablePointer<passwd>?)
            guard body(&entry, base, buffer.count, &found) == 0, found != nil else { return nil }
            return ServiceAccount(
                user: entry.pw_uid, group: entry.pw_gid, name: String(cString: entry.pw_name),
                home: String(cString: entry.pw_dir))
        }
    }

    /// The command as this account, whose rights a program that is not root has already.
    func command(_ arguments: [String]) throws(EmbeddedPostgresError) -> [String] {
        guard geteuid() == 0 else { return arguments }
        guard let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].first(where: isExecutable) else {
            throw EmbeddedPostgresError(
                .notInstalled, "started as root, and setpriv is missing (Debian: apt-get install util-linux)")
        }
        return [setpriv, "--reuid=\(user)", "--regid=\(group)", "--clear-groups", "--no-new-privs", "--"] + arguments
    }
}
