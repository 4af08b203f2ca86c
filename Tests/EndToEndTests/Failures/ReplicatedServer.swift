import Foundation
import Glibc
import TestSupport
import Testing

/// Two PostgreSQL servers, of which one follows the other asynchronously and can take its place; they trust everybody.
///
/// What the first has committed after `cutOff()` is lost with `failOver()`.
final class ReplicatedServer: Sendable {
    private let directory: URL

    /// Starts both, with two roles that may log in: `owner`, who owns the database `ledger`, and `server`.
    init() async throws {
        directory = ScratchSpace.directory.appending(path: "replicated-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        _ = try await run("make")
    }

    /// Where both can be reached: whoever connects comes to the one that writes.
    func url(_ role: String) -> String {
        let hosts = ["a", "b"].map { "\(directory.path())/\($0)" }.joined(separator: ",")
        return "postgresql://\(role)@/ledger?host=\(hosts)&target_session_attrs=read-write&connect_timeout=5"
    }

    /// Lets the follower get nothing any more.
    func cutOff() async throws { _ = try await run("cut") }

    /// Kills the server that writes, and lets the follower take its place.
    func failOver() async throws { _ = try await run("fail") }

    /// Makes the server that was killed follow the other.
    func replicate() async throws { _ = try await run("follow") }

    func stop() async {
        _ = try? await run("stop")
        try? FileManager.default.removeItem(at: directory)
    }

    private func run(_ command: String) async throws -> String {
        let process = Process()
        // Whatever a server does, nobody waits for it for ever.
        process.executableURL = URL(filePath: "/usr/bin/timeout")
        process.arguments = [
            "--foreground", "--kill-after=10", "120", "/bin/bash", "-c", Self.script, "bash", command, directory.path(),
        ]
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        try await process.runWithAllSignals()
        async let outputText = Installation.read(output)
        async let errorText = Installation.read(errors)
        let texts = await (outputText, errorText)
        let status = process.waitForEnd()
        guard status == 0 else { throw CommandFailure(arguments: [command], status: status, errors: texts.1) }
        return texts.0
    }

    /// The file `writer` names the one that writes, `a` or `b`; each has its socket and its data in a directory of that name.
    private static let script = """
        set -eu
        bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
        cd "$2"
        as=""
        if [ "$(id -u)" = 0 ]; then as="setpriv --reuid=postgres --regid=postgres --init-groups"; fi
        start() {
            $as "$bin/pg_ctl" -D "$1/data" -l "$PWD/$1/log" -w -t 60 -o "-k $PWD/$1 -c listen_addresses= -F" start \\
                >/dev/null </dev/null 2>&1
        }
        follow() {
            $as rm -rf "$2/data"
            $as "$bin/pg_basebackup" -h "$PWD/$1" -U superuser -D "$2/data" -R -X stream -c fast
            start "$2"
        }
        other() { if [ "$1" = a ]; then echo b; else echo a; fi; }
        case $1 in
        make)
            if [ "$(id -u)" = 0 ]; then chown postgres .; fi
            $as mkdir a b
            $as "$bin/initdb" -D a/data --no-sync -A trust -U superuser --locale=C.UTF-8 -E UTF8 >/dev/null
            $as sh -c 'printf "shared_buffers = 32MB\\nwal_keep_size = 128MB\\n" >>a/data/postgresql.conf'
            start a
            psql -qXh "$PWD/a" -U superuser postgres -c 'CREATE ROLE owner LOGIN' -c 'CREATE ROLE server LOGIN' \\
                -c 'CREATE DATABASE ledger OWNER owner'
            echo a >writer
            follow a b
            ;;
        cut)
            node=$(other "$(cat writer)")
            $as sh -c "echo \\"primary_conninfo = ''\\" >>$node/data/postgresql.auto.conf"
            $as "$bin/pg_ctl" -D "$node/data" reload >/dev/null
            while [ "$(psql -qXAth "$PWD/$node" -U superuser postgres \\
                -c 'SELECT count(*) FROM pg_stat_wal_receiver')" != 0 ]; do sleep 0.01; done
            ;;
        fail)
            old=$(cat writer)
            server=$(head -n 1 "$old/data/postmaster.pid")
            children=$(pgrep -P "$server" || true)
            kill -KILL "$server" $children 2>/dev/null || true
            while kill -0 "$server" 2>/dev/null; do sleep 0.01; done
            new=$(other "$old")
            $as "$bin/pg_ctl" -D "$new/data" -w -t 60 promote >/dev/null
            echo "$new" >writer
            ;;
        follow) follow "$(cat writer)" "$(other "$(cat writer)")" ;;
        stop) for node in a b; do $as "$bin/pg_ctl" -D "$node/data" -m immediate stop >/dev/null 2>&1 || true; done ;;
        esac
        """
}
