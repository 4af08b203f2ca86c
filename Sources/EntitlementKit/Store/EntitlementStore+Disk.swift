import EntitlementAPI
import EntitlementCore
import Foundation

extension EntitlementStore {
    /// Reads what is on disk and was not read yet.
    func load() async {
        for file in DiskState.File.allCases where disk.unread.contains(file) { await loadFile(file) }
        guard let error = await (storage as? FileEntitlementStorage)?.failureToMove else { return }
        log(.error, .storage, "files could not be moved, and are used where they were: \(error: error)")
        report(SyncEvent(kind: .storageFailed, transactionIDs: [], detail: "files could not be moved: \(error)"))
    }

    private func loadFile(_ file: DiskState.File) async {
        let content: StoredContent
        let known = disk.versions[file]
        do {
            content = try await storage.read(file.rawValue)
        } catch CocoaError.fileReadTooLarge {
            return await setAside(file, because: "it is larger than anything that is written here")
        } catch {
            // The device may not have been unlocked yet. It is tried again before anything is written.
            log(.error, .storage, "reading \(word: file): \(error: error)")
            return report(SyncEvent(kind: .storageFailed, transactionIDs: [], detail: "\(file.rawValue): \(error)"))
        }
        let kept = await understand(file, content.data)
        // The file was written here meanwhile, as when somebody has logged in: what was read is older than that.
        guard disk.versions[file] == known else { return await loadFile(file) }
        disk.unread.remove(file)
        do {
            try restore(kept)
            disk.versions[file] = content.version
        } catch {
            await setAside(file, because: "\(error)")
        }
    }

    private func setAside(_ file: DiskState.File, because reason: String) async {
        await storage.setAside(file.rawValue)
        disk.unread.remove(file)
        disk.versions[file] = .nothing
        report(
            SyncEvent(
                kind: .storageFailed, transactionIDs: [],
                detail: "\(file.rawValue) could not be understood, and was set aside: \(reason)"))
    }

    /// Holds what the disk says against what store and server have signed: it may have been written by anybody.
    func doubtDisk() {
        clockGuard.witness(signed: ledger.lastSigned, told: ledger.lastAnswered, uptime: uptime)
        guard !disk.unread.contains(.clock), ledger.forgetConfirmations(after: now) else { return }
        disk.note(.statements)
        disk.mustReplaceRows = true
    }

    /// Whether it is known on whose behalf this device acts: nothing may be posted, or shown, in another's name.
    var isIdentityKnown: Bool { !disk.unread.contains(.identity) || disk.changed[.identity] != nil }

    /// Reads what could not be read before, as before the device was first unlocked.
    func loadAgain() async {
        guard !disk.unread.isEmpty, !isStopped else { return }
        let (customerBefore, wasKnown) = (ledger.customerID, isIdentityKnown)
        await load()
        if ledger.customerID != customerBefore || isIdentityKnown != wasKnown { askAnew() }
        publish()
        resend()
        scheduleUnlock()
        // What the store showed before is not on disk yet, and without a server nothing else writes it.
        guard disk.writing == nil, disk.outdated.contains(where: { !disk.unread.contains($0) }) else { return }
        perform { store in
            _ = await store.persist()
            store.publish()
        }
    }

    /// Reads what another process has written since, and writes again what the system has deleted to make room.
    func loadChanges() async {
        let customerBefore = ledger.customerID
        for file in DiskState.File.allCases where !disk.unread.contains(file) {
            let known = disk.versions[file] ?? .nothing
            guard let version = try? await storage.version(of: file.rawValue), version != known else { continue }
            if version == .nothing { disk.note(file) }
            await loadFile(file)
        }
        if !disk.outdated.isEmpty { perform { _ = await $0.persist() } }
        if ledger.customerID != customerBefore { askAnew() }
        publish()
        resend()
    }

    /// How often it is tried to read what could not be read, in milliseconds.
    private static let unlockInterval: Int64 = 15_000

    func scheduleUnlock() {
        schedule(&unlockTimer, due: disk.unread.isEmpty ? nil : uptime + Self.unlockInterval) { store in
            store.unlockTimer = nil
            await store.loadAgain()
        }
    }

    /// What a file holds, as far as it counts; nothing is joined yet.
    private enum Kept {
        case nothing
        case statements(KeptStatements, size: Int)
        case other(DiskState.File, Data)
    }

    private func understand(_ file: DiskState.File, _ data: Data?) async -> Kept {
        guard file == .statements else { return data.map { .other(file, $0) } ?? .nothing }
        let data = data ?? Data()
        return .statements(await KeptStatements.read(data, configuration.statementVerifier), size: data.count)
    }

    /// Joins what a file holds to what is known.
    private func restore(_ kept: Kept) throws {
        switch kept {
        case .nothing: break
        case .statements(let kept, let size):
            guard kept.file.lineCount > 0 || size == 0 else { throw CocoaError(.fileReadCorruptFile) }
            disk.rows = StatementRowLog(kept.book.rows, size: size)
            disk.hasUnknownRows = kept.file.hasUnknownLines
            ledger.book.join(kept.book)
            // Before this process could read it, or by another one.
            for id in gate.unacknowledged where ledger.book.transactions[id].map(kept.book.isAcknowledged) ?? false {
                gate.acknowledged(id)
            }
            guard kept.refusedCount > 0 else { return }
            // The file keeps them until it is written anew: what is wrong may be this version of the app.
            let detail = "\(kept.refusedCount) statements that were kept, which nobody vouches for"
            report(SyncEvent(kind: .unverified, transactionIDs: [], detail: detail))
        case .other(let file, let data): try restore(file, from: data)
        }
    }

    private func restore(_ file: DiskState.File, from data: Data) throws {
        // Row by row: another version of the app may have written more, or otherwise.
        let kept = try WireJSON.decode(WireValue.self, from: Array(data))
        switch file {
        case .statements: break
        case .server:
            ledger.restore(ServerFile(kept, check: ledger.passCheck))
        case .queue:
            for row in kept["pending"]?.entries ?? [] {
                if let key = row.decoded(SyncQueue.Key.self) { _ = queue.add(key, isNews: false) }
            }
        case .identity:
            let before = ledger.identified
            // Whom the app names in this process is newer than what it said before.
            ledger.restore(identity: kept, isNamed: disk.namesCustomer)
            // Another process has named somebody else: neither the token nor what listeners were told is theirs.
            if ledger.identified != before { (tokens, toldPurchases) = (TokenState(), [:]) }
        case .clock:
            clockGuard.restore(ClockGuard(kept), uptime: uptime)
        case .checkouts:
            checkouts.join(kept)
        }
    }

    /// Puts on disk whatever is not there yet; returns whether all that was known when it was called is.
    func persist() async -> Bool {
        let wanted = disk.changes
        // One that began before may have failed at what can be written by now.
        _ = await disk.writing?.value
        while !disk.isDurable(upTo: wanted) {
            let attempt = disk.writing ?? Task { await writeOut() }
            disk.writing = attempt
            guard await attempt.value || disk.isDurable(upTo: wanted) else { return false }
        }
        return true
    }

    private func writeOut() async -> Bool {
        defer { disk.writing = nil }
        await loadAgain()
        var isComplete = true
        for file in disk.outdated {
            do {
                try await write(file)
            } catch {
                isComplete = false
                log(.error, .storage, "writing \(word: file): \(error: error)")
                report(SyncEvent(kind: .storageFailed, transactionIDs: [], detail: "\(file.rawValue): \(error)"))
            }
        }
        // What could not be written before may be told now.
        tellUnacknowledged()
        return isComplete
    }

    /// How often a file is written that others write to as well.
    private static let writeAttempts = 20

    private func write(_ file: DiskState.File) async throws {
        guard !disk.unread.contains(file) else { throw CocoaError(.fileReadNoPermission) }
        for _ in 0..<Self.writeAttempts {
            let change = disk.changes
            let kept = ledger.book
            let isWritten = try await file == .statements ? writeStatements(kept) : writeWhole(file)
            if isWritten {
                disk.durable[file] = change
                if file == .statements { gate.stored(kept.content(of:)) }
                return
            }
            // Somebody else was faster: what they have written is joined, and both are.
            let customerBefore = ledger.customerID
            let content = try await storage.read(file.rawValue)
            try restore(await understand(file, content.data))
            disk.versions[file] = content.version
            if ledger.customerID != customerBefore {
                askAnew()
                publish()
            }
        }
        throw CocoaError(.fileLocking)
    }

    private func writeStatements(_ book: StatementBook) async throws -> Bool {
        let rows = book.rows
        let mustReplace = disk.mustReplaceRows
        let missing = mustReplace ? nil : disk.rows.missing(from: rows)
        if let missing, missing.isEmpty { return true }
        // What becomes wrong while this is written asks for another writing.
        disk.mustReplaceRows = false
        var isWritten = false
        defer { if mustReplace, !isWritten { disk.mustReplaceRows = true } }
        if missing == nil, disk.hasUnknownRows {
            try await copyStatementsAside()
            disk.hasUnknownRows = false
        }
        let data = try (missing ?? rows).reduce(into: Data()) { $0.append(try $1.line) }
        guard
            let version = try await storage.save(
                missing == nil ? .replace(data) : .append(data), as: DiskState.File.statements.rawValue,
                over: disk.versions[.statements] ?? .nothing)
        else { return false }
        disk.versions[.statements] = version
        disk.rows.note(missing ?? rows, replacing: missing == nil)
        isWritten = true
        return true
    }

    /// Keeps what the file of statements holds under another name, too, before it is replaced.
    private func copyStatementsAside() async throws {
        let name = DiskState.File.statements.rawValue + ".unreadable"
        guard let data = try await storage.read(DiskState.File.statements.rawValue).data else { return }
        guard try await storage.save(.replace(data), as: name, over: storage.version(of: name)) != nil else {
            throw CocoaError(.fileLocking)
        }
    }

    private func writeWhole(_ file: DiskState.File) async throws -> Bool {
        let version = try await storage.save(
            .replace(Data(try contents(of: file))), as: file.rawValue, over: disk.versions[file] ?? .nothing)
        guard let version else { return false }
        disk.versions[file] = version
        return true
    }

    private func contents(of file: DiskState.File) throws -> [UInt8] {
        switch file {
        case .statements: []
        case .server: try WireJSON.encode(ledger.serverFile)
        case .queue: try WireJSON.encode(QueueFile(pending: queue.pending))
        case .identity: try WireJSON.encode(ledger.identityFile)
        case .clock: try WireJSON.encode(clockGuard)
        case .checkouts: try WireJSON.encode(checkouts.file)
        }
    }
}
