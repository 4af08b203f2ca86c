import Foundation
import Glibc
import PostgresClient
import TestSupport
import Testing

/// A PostgreSQL that listens on this machine's address on a network, with TLS for those who ask; it trusts everybody.
final class NetworkServer: Sendable {
    /// This machine's first IPv4 address that is not a loopback one; `nil` where there is none.
    static let address: String? = {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return nil }
        defer { freeifaddrs(list) }
        var next = list
        while let entry = next {
            next = entry.pointee.ifa_next
            guard let address = entry.pointee.ifa_addr, address.pointee.sa_family == sa_family_t(AF_INET),
                entry.pointee.ifa_flags & UInt32(IFF_UP) != 0
            else { continue }
            var text = [CChar](repeating: 0, count: 64)
            let length = socklen_t(MemoryLayout<sockaddr_in>.size)
            guard getnameinfo(address, length, &text, 64, nil, 0, NI_NUMERICHOST) == 0 else { continue }
            let name = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if !name.hasPrefix("127.") { return name }
        }
        return nil
    }()

    let port: UInt16
    /// Open as long as this object lives; the script then stops the server and cleans up.
    private let lifeline: Pipe
    private let process: Process

    /// Starts it with two roles that may log in: `owner`, who owns the database `ledger`, and `server`.
    init() throws {
        let address = try #require(Self.address)
        (process, lifeline) = (Process(), Pipe())
        let output = Pipe()
        process.executableURL = URL(filePath: "/bin/bash")
        process.arguments = ["-c", Self.script, "bash", address, ScratchSpace.directory.path()]
        process.standardInput = lifeline
        process.standardOutput = output
        try process.runAlone()
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        port = try #require(
            UInt16(line.trimmingCharacters(in: .whitespacesAndNewlines)), "PostgreSQL did not start: \(line)")
    }

    func stop() {
        try? lifeline.fileHandleForWriting.close()
        process.waitForEnd()
    }

    /// Starts it again as a standby, whose primary never sends anything.
    func becomeStandby() async throws {
        try lifeline.fileHandleForWriting.write(contentsOf: Data("standby\n".utf8))
        let url = url("server", parameters: "sslmode=disable")
        let start = ContinuousClock.now
        while start.duration(to: .now) < .seconds(60) {
            let connection = try? await PostgresConnection.connect(url)
            if (try? await connection?.query("SELECT pg_is_in_recovery()").row(0).bool(0)) == true { return }
            try await Task.sleep(for: .milliseconds(50))
        }
        throw CancellationError()
    }

    /// The URL of the database, on the network unless said otherwise.
    func url(_ role: String, host: String? = nil, parameters: String) -> String {
        "postgresql://\(role)@\(host ?? Self.address ?? ""):\(port)/ledger?\(parameters)"
    }

    private static let script = """
        set -eu
        trap '' INT HUP
        bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
        dir=$(mktemp -d "$2/network-XXXXXX")
        trap 'rm -rf "$dir"' EXIT
        cd "$dir"
        as=""
        if [ "$(id -u)" = 0 ]; then
            chown postgres "$dir"
            as="setpriv --reuid=postgres --regid=postgres --init-groups"
        fi
        $as openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test \\
            -keyout server.key -out server.crt 2>/dev/null
        $as chmod 600 server.key
        $as "$bin/initdb" -D data --no-sync -A trust -U superuser --locale=C.UTF-8 -E UTF8 >/dev/null
        $as sh -c 'echo "host all all all trust" >>data/pg_hba.conf'
        address=$1
        start() {
            $as "$bin/postgres" -D data -k "$dir" -h "$address,127.0.0.1" -p $port -F -c ssl=on \\
                -c max_prepared_transactions=4 -c ssl_cert_file="$dir/server.crt" -c ssl_key_file="$dir/server.key" \\
                </dev/null >log 2>&1 &
            server=$!
            until "$bin/pg_isready" -q -h "$address" -p $port; do
                kill -0 $server 2>/dev/null || return 1
                sleep 0.05
            done
        }
        for try in 1 2 3 4 5; do
            port=$((20000 + RANDOM % 10000))
            if start; then break; fi
        done
        psql -qXh "$dir" -p $port -U superuser postgres -c 'CREATE ROLE owner LOGIN' -c 'CREATE ROLE server LOGIN' \\
            -c 'CREATE DATABASE ledger OWNER owner' >&2
        echo $port
        exec >/dev/null
        while read -r _; do
            kill -INT $server
            wait $server || :
            $as touch data/standby.signal
            start
        done
        kill -INT $server
        wait $server
        """
}

extension HTTPClient {
    /// What `/readyz` answers, once it has the status and the words that are waited for, or half a minute is over.
    func readiness(toBe status: Int, with words: String = "") async throws -> Answer {
        let start = ContinuousClock.now
        while true {
            let answer = try await send("GET", "/readyz")
            if answer.status == status, words.isEmpty || answer.text.contains(words) { return answer }
            if start.duration(to: .now) > .seconds(30) { return answer }
            try await Task.sleep(for: .milliseconds(200))
        }
    }
}
