import Foundation
import PostgresClient
import Testing

/// One PostgreSQL for all tests of the process: the one `RIGHTFUL_TEST_DATABASE_URL` names, else a throwaway server.
enum TestDatabase {
    static func conninfo() throws -> String { try server.get().conninfo }

    static func connect(_ options: ConnectionOptions = ConnectionOptions()) async throws -> PostgresConnection {
        try await PostgresConnection.connect(conninfo(), options: options)
    }

    private static let server = Result { () throws -> Server in
        if let url = ProcessInfo.processInfo.environment["RIGHTFUL_TEST_DATABASE_URL"] {
            return Server(conninfo: url, lifeline: nil)
        }
        return try Server.start()
    }

    private struct Server {
        let conninfo: String
        /// Open as long as this process lives, however it ends; the script then stops the server and cleans up.
        let lifeline: Pipe?

        static func start() throws -> Server {
            let (process, lifeline, output) = (Process(), Pipe(), Pipe())
            process.executableURL = URL(fileURLWithPath: "/bin/sh")
            process.arguments = ["-c", script]
            process.standardInput = lifeline
            process.standardOutput = output
            try process.run()
            var line = Data()
            while line.last != UInt8(ascii: "\n") {
                guard let more = try output.fileHandleForReading.read(upToCount: 1), !more.isEmpty else { break }
                line += more
            }
            let conninfo = String(decoding: line, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
            try #require(!conninfo.isEmpty, "PostgreSQL did not start; is the Debian package postgresql installed?")
            return Server(conninfo: conninfo, lifeline: lifeline)
        }

        private static let script = """
            set -eu
            trap '' INT HUP
            bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
            dir=$(mktemp -d /tmp/rightful-client-tests-XXXXXX)
            trap 'rm -rf "$dir"' EXIT
            cd "$dir"
            as=""
            if [ "$(id -u)" = 0 ]; then
                chown postgres "$dir"
                as="setpriv --reuid=postgres --regid=postgres --init-groups"
            fi
            $as "$bin/initdb" -D "$dir/data" --no-sync -A trust -U rightful --locale=C.UTF-8 -E UTF8 >/dev/null
            $as "$bin/postgres" -D "$dir/data" -k "$dir" -h '' -F </dev/null >"$dir/log" 2>&1 &
            server=$!
            until "$bin/pg_isready" -q -h "$dir"; do kill -0 $server; sleep 0.05; done
            echo "host=$dir user=rightful dbname=postgres"
            exec >/dev/null
            cat
            kill -INT $server
            wait $server
            """
    }
}
