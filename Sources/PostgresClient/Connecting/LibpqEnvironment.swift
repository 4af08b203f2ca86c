private import CLibPQ
private import Glibc

/// The environment variables by which libpq is told of a server, of a user and of how to connect.
package enum LibpqEnvironment {
    /// Takes them from this process, for a program whose conninfos say all that there is to say: what they do not name, a variable
    /// such as PGHOSTADDR or PGSERVICE would add, and lead to another server or to none.
    ///
    /// To be called before other threads read the environment.
    package static func clear() {
        // What these are about is no parameter of a connection.
        for name in ["PGSERVICEFILE", "PGSYSCONFDIR"] { unsetenv(name) }
        guard let defaults = PQconndefaults() else { return }
        defer { PQconninfoFree(defaults) }
        var option = defaults
        while option.pointee.keyword != nil {
            if let name = option.pointee.envvar { unsetenv(name) }
            option += 1
        }
    }
}
