private import CLibPQ

extension PostgresConnection {
    /// Sends all statements at once and reads all results: one round trip, one implicit transaction.
    ///
    /// The first error undoes and skips the rest and is thrown; the connection stays usable. Inside `transaction` the
    /// statements are part of it. Any size of parameters will do: sending and receiving go on at the same time.
    package func pipeline(_ batch: [PostgresStatement]) throws(PostgresError) -> [PostgresResult] {
        if batch.isEmpty { return [] }
        try dropOrphans()
        let buffers = try batch.map { statement throws(PostgresError) in try ParameterBuffer(statement.parameters) }
        let keys = zip(batch, buffers).map { StatementCache.Key(sql: $0.sql, types: $1.types) }
        let distinct = Set(keys)
        guard distinct.count <= statements.limit else {
            throw PostgresError(
                kind: .invalidValue,
                message: "\(distinct.count) different statements in a pipeline; \(statements.limit) fit")
        }
        try makeRoom(for: distinct.count { statements.name(of: $0) == nil }, sparing: distinct)

        try enterPipeline()
        defer { leavePipeline() }
        var expected: [Expected] = []
        var names: [StatementCache.Key: String] = [:]
        for (index, key) in keys.enumerated() {
            let statement = batch[index]
            let name: String
            if let known = names[key] ?? statements.name(of: key) {
                name = known
            } else {
                name = statements.newName(of: key)
                try sent(PQsendPrepare(pointer, name, key.sql, Int32(key.types.count), key.types), statement.label)
                expected.append(.preparation(key, name: name))
            }
            names[key] = name
            let sending = buffers[index].withPointers { count, _, values, lengths, formats in
                PQsendQueryPrepared(pointer, name, count, values, lengths, formats, 1)
            }
            try sent(sending, statement.label)
            expected.append(.execution(statement))
        }
        try sent(PQpipelineSync(pointer), "SYNC")
        return try receive(expected)
    }

    private enum Expected {
        case preparation(StatementCache.Key, name: String)
        case execution(PostgresStatement)
    }

    /// Reads up to the Sync whatever happens, so that the next command finds a clean connection.
    private func receive(_ expected: [Expected]) throws(PostgresError) -> [PostgresResult] {
        var results: [PostgresResult] = []
        var failure: PostgresError?
        var position = 0
        while true {
            // Also sends, as far as the server takes it: to send first would deadlock as soon as both sides' buffers are
            // full, because the server stops reading while nobody takes its answers.
            guard let result = try nextResult() else {
                // NULL ends the results of one command; from a dead connection it would come for ever.
                if PQstatus(pointer) == CONNECTION_BAD { throw failure ?? lost() }
                position += 1
                continue
            }
            let status = PQresultStatus(result)
            if status == PGRES_PIPELINE_SYNC || status == PGRES_PIPELINE_ABORTED {
                PQclear(result)
                if status == PGRES_PIPELINE_SYNC { break }
                continue
            }
            guard position < expected.count else {
                PQclear(result)
                continue
            }
            do throws(PostgresError) {
                switch expected[position] {
                case .preparation(let key, let name):
                    _ = try checked(result, PostgresStatement.label(of: key.sql))
                    statements.insert(key, name: name)
                case .execution(let statement):
                    results.append(try checked(result, statement.label))
                }
            } catch {
                if failure == nil { failure = error }
            }
        }
        if let failure { throw failure }
        return results
    }

    private func enterPipeline() throws(PostgresError) {
        guard PQenterPipelineMode(pointer) == 1 else { throw lost() }
    }

    private func leavePipeline() {
        // Refused only with results unread, after sending or receiving failed; `isBroken` then says so.
        _ = PQexitPipelineMode(pointer)
    }

    private func lost() -> PostgresError { PostgresError(connection: pointer, fallback: "the connection is gone") }
}
