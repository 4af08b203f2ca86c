package import EntitlementAPI
package import EntitlementCore
package import Ledger
import OpenSSLCrypto

/// What is wrong with a file that should be a customer's export.
package struct ExportFileError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

extension CustomerExportDocument {
    /// The file of an export.
    ///
    /// - Parameter check: throws where the file is not wanted any more.
    package init(
        _ export: CustomerExport, customer: CustomerID, environments: [StoreEnvironment],
        check: () throws -> Void = {}
    ) throws {
        self.init(
            customerID: customer.value, identity: export.identity.number,
            identities: export.identities.sorted { $0.key < $1.key }.map {
                Identity(number: $0.key.number, value: $0.value)
            }, environments: environments,
            ledger: LedgerEnd(position: export.position, recordedAt: export.recordedAt, hash: export.hash.hex),
            events: try export.items.map { item in
                try check()
                return Event(item)
            })
    }

    /// Reads a file and checks that every event in it is as the log had it.
    package static func read(_ bytes: [UInt8]) throws -> (document: CustomerExportDocument, events: [HistoryEvent]) {
        struct Head: Decodable {
            let object: String
            let format_version: Int
        }
        guard let head = try? WireJSON.decode(Head.self, from: bytes), head.object == "customer_export" else {
            throw ExportFileError("is not a file that `rightful export` wrote")
        }
        guard head.format_version == formatVersion else {
            throw ExportFileError("has format \(head.format_version); this program reads format \(formatVersion)")
        }
        let document: CustomerExportDocument
        do {
            document = try WireJSON.decode(CustomerExportDocument.self, from: bytes)
        } catch {
            throw ExportFileError("lacks something that `rightful export` writes, or it was changed")
        }
        let events = try document.events.map { event in
            guard let item = event.item else {
                throw ExportFileError("event \(event.position) does not read as an event")
            }
            if let fault = item.fault { throw ExportFileError("event \(event.position) was changed: \(fault)") }
            guard Event(item) == event else {
                throw ExportFileError(
                    "event \(event.position) was changed: it does not say what its canonical facts say")
            }
            return HistoryEvent(item.record, fact: item.fact)
        }
        return (document, events)
    }

    /// The line of a checkpoint's note that binds the file to it.
    package var bindingLine: String { "export \(contentHash.hex)" }

    /// The SHA-256 of all that an answer can depend on.
    ///
    /// An event's hash covers its facts, and the evidence by its own hash.
    private var contentHash: Digest {
        var writer = CanonicalWriter()
        writer.text("rightful export \(formatVersion)")
        writer.text(customerID)
        writer.integer(identity)
        writer.integer(Int64(identities.count))
        for identity in identities {
            writer.integer(identity.number)
            writer.text(identity.value)
        }
        writer.integer(Int64(environments.count))
        for environment in environments { writer.text(environment.rawValue) }
        writer.integer(ledger.position)
        writer.timestamp(ledger.recordedAt)
        writer.text(ledger.hash)
        writer.integer(Int64(events.count))
        for event in events { writer.text(event.hash) }
        return Digest(SHA256.hash(writer.bytes)) ?? .zero
    }

    /// Binds the file to a checkpoint of the log.
    package mutating func bind(with signer: CheckpointSigner) async throws {
        let note = try await signer.sign(extensions: [bindingLine]).note
        checkpoint = Binding(note: note, logKey: signer.verifier.text)
    }

    /// Checks that the file is as it was exported.
    ///
    /// - Parameter key: whose signature it must bear; `nil` takes the one that the file names, which shows that it was
    ///   changed by nobody who has no such key, and not whose log it is of.
    /// - Returns: the key that signed it; `nil` where the file is bound to no checkpoint.
    package func checkBinding(_ key: LogVerifier?) throws -> LogVerifier? {
        guard let checkpoint else { return nil }
        guard let note = SignedNote(checkpoint.note), let signed = Checkpoint(text: note.text),
            let key = key ?? LogVerifier(checkpoint.logKey)
        else { throw ExportFileError("its checkpoint does not read as one") }
        guard note.isSigned(by: key) else {
            throw ExportFileError("its checkpoint, of \(signed.origin), was not signed by the log's key \(key.text)")
        }
        let lines = note.text.split(separator: "\n", omittingEmptySubsequences: false).dropFirst(3)
        guard lines.contains(Substring(bindingLine)), signed.size >= ledger.position else {
            throw ExportFileError("was changed after it was exported: it is not what its checkpoint was signed with")
        }
        return key
    }

    /// The position that `knownAt` stands for, as far as the file tells: of a time, that of the last event in it.
    package func position(_ knownAt: KnownAt) throws(KnownAtError) -> Int64 {
        switch knownAt {
        case .head:
            return ledger.position
        case .position(let position):
            guard position <= ledger.position else { throw .beyondHead(head: ledger.position) }
            return position
        case .recorded(let instant):
            if instant >= ledger.recordedAt { return ledger.position }
            return events.last { $0.recordedAt <= instant }?.position ?? 0
        }
    }
}

extension CustomerExportDocument.Event {
    fileprivate init(_ item: CustomerExport.Item) {
        let record = item.record
        self.init(
            position: record.position, id: record.eventID, type: record.type, source: record.source.rawValue,
            recordedAt: record.recordedAt, fact: item.fact, canonicalFacts: record.facts,
            evidenceIsWithheld: item.isWithheld,
            previousHash: record.previousHash.hex, hash: record.hash.hex)
        environment = record.environment
        originalTransactionID = record.originalTransactionID
        transactionID = record.transactionID
        productID = record.productID
        identity = record.identity?.number
        otherIdentity = record.otherIdentity?.number
        occurredAt = record.occurredAt
        evidenceSHA256 = record.evidenceHash?.hex
        identityCommitments = record.identityCommitments.map(\.hex)
        evidence = item.evidence.map { String(decoding: $0, as: UTF8.self) }
    }

    /// The event again; `nil` for what cannot be one.
    fileprivate var item: CustomerExport.Item? {
        guard let source = EventSource(rawValue: source), let bytes = canonicalBytes,
            let fact = try? FactCodec.decode(bytes), let hash = Digest(hex: hash),
            let previousHash = Digest(hex: previousHash)
        else { return nil }
        let evidenceHash = evidenceSHA256.flatMap { Digest(hex: $0) }
        let record = EventRecord.read(
            position: position, recordedAt: recordedAt, occurredAt: occurredAt, environment: environment,
            source: source, type: type, originalTransactionID: originalTransactionID, transactionID: transactionID,
            productID: productID, identity: identity.map { IdentityRef($0) },
            otherIdentity: otherIdentity.map { IdentityRef($0) }, facts: bytes, evidenceHash: evidenceHash,
            identityCommitments: identityCommitments.compactMap { Digest(hex: $0) }, previousHash: previousHash,
            hash: hash)
        return CustomerExport.Item(
            record: record, fact: fact, evidence: evidence.map { Array($0.utf8) }, isWithheld: evidenceWithheld)
    }
}

extension Digest {
    /// Reads 64 hexadecimal digits.
    fileprivate init?(hex: String) {
        guard let bytes = Hexadecimal.bytes(hex) else { return nil }
        self.init(bytes)
    }
}
