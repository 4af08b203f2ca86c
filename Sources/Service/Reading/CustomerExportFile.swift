package import EntitlementAPI
package import EntitlementCore
package import Ledger

/// What is wrong with a file that should be a customer's export.
package struct ExportFileError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}

extension CustomerExportDocument {
    /// The file of an export.
    package init(_ export: CustomerExport, customer: CustomerID, environments: [StoreEnvironment]) {
        self.init(
            customerID: customer.value, identity: export.identity.number,
            identities: export.identities.sorted { $0.key < $1.key }.map {
                Identity(number: $0.key.number, value: $0.value)
            }, environments: environments,
            ledger: LedgerEnd(position: export.position, recordedAt: export.recordedAt, hash: export.hash.hex),
            events: export.items.map { Event($0) })
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
            return HistoryEvent(item.record, fact: item.fact)
        }
        return (document, events)
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
        let digits = hex.utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count == 64 else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: 64, by: 2) {
            guard let high = digits[index], let low = digits[index + 1] else { return nil }
            bytes.append(UInt8(high * 16 + low))
        }
        self.init(bytes)
    }
}
