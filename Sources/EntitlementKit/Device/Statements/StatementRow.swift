import AppStorePayloads
import EntitlementAPI
import EntitlementCore
import Foundation

/// One line of the file of statements: a JSON object with one member.
///
/// A line is added when there is something new, so that a customer who has much costs no more to keep than one who has
/// little. Lines join in whatever order they stand, but for the app's own purchase and the lists of what is current and
/// of the accounts that the store shows, of each of which the last one counts.
struct StatementRow: Sendable {
    /// The same for what says the same.
    let id: String
    private let member: String
    private let value: WireValue

    static func transaction(_ transaction: DeviceTransaction) -> StatementRow {
        let id = id(transaction.contentHash, transaction.payload.signedDate)
        return StatementRow(id: "transaction \(id)", member: "transaction", value: .string(transaction.jws))
    }

    static func renewal(_ renewal: DeviceRenewal) -> StatementRow {
        let id = id(renewal.contentHash, renewal.payload.signedDate)
        return StatementRow(id: "renewal \(id)", member: "renewal", value: .string(renewal.jws))
    }

    /// What says the same is written once a day at most: the store may sign everything anew whenever it is asked.
    private static func id(_ content: Digest, _ signedDate: Timestamp?) -> String {
        "\(content.hex) \((signedDate ?? .earliest).milliseconds / 86_400_000)"
    }

    static func app(_ app: DeviceAppTransaction) -> StatementRow {
        let day = (app.payload.signedDate ?? .earliest).milliseconds / 86_400_000
        let stated = "\(app.customerID ?? "") \(app.payload.environment) \(day)"
        return StatementRow(id: appPrefix + stated, member: "app", value: .string(app.jws))
    }

    static func confirmed(_ originalTransactionID: String, _ instant: Timestamp) -> StatementRow {
        StatementRow(
            id: "confirmed \(originalTransactionID) \(instant.milliseconds)", member: "confirmed",
            value: .object([originalTransactionID: .string(instant.description)]))
    }

    static func current(_ listed: [String: Timestamp]) -> StatementRow {
        let list = listed.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.milliseconds)" }
        return StatementRow(
            id: currentPrefix + list.joined(separator: " "), member: "current",
            value: .object(listed.mapValues { .string($0.description) }))
    }

    static func accounts(_ accounts: Set<String>) -> StatementRow {
        let list = accounts.sorted()
        return StatementRow(
            id: accountsPrefix + list.joined(separator: " "), member: "accounts",
            value: .array(list.map { .string($0) }))
    }

    static func acknowledged(_ transactionID: String, _ acknowledgement: Acknowledgement) -> StatementRow {
        let (deed, at) = (acknowledgement.deed, acknowledgement.signedDate)
        return StatementRow(
            id: "acknowledged \(transactionID) \(deed.rawValue) \(at.milliseconds)", member: "acknowledged",
            value: .object([
                transactionID: .object(["deed": .string(deed.rawValue), "at": .string(at.description)])
            ]))
    }

    static func letGo(_ transactionID: String, _ content: String) -> StatementRow {
        StatementRow(
            id: "letGo \(transactionID) \(content)", member: "letGo", value: .object([transactionID: .string(content)]))
    }

    private static let appPrefix = "app "
    private static let currentPrefix = "current "
    private static let accountsPrefix = "accounts "

    /// What it takes the place of; `nil`: of nothing.
    fileprivate var place: String? {
        [Self.appPrefix, Self.currentPrefix, Self.accountsPrefix].first { id.hasPrefix($0) }
    }

    /// About how many bytes its line has.
    var size: Int {
        if case .string(let text) = value { text.utf8.count + 20 } else { id.utf8.count + 40 }
    }

    /// The line, with its end.
    var line: Data {
        get throws {
            var line = Data(try WireJSON.encode(WireValue.object([member: value])))
            line.append(UInt8(ascii: "\n"))
            return line
        }
    }
}

/// What the file of statements holds.
struct StatementFile: Sendable {
    private(set) var appTransaction: String?
    private(set) var transactions: [String] = []
    private(set) var renewals: [String] = []
    private(set) var confirmed: [String: Timestamp] = [:]
    private(set) var current: [String: Timestamp] = [:]
    private(set) var accounts: Set<String>?
    private(set) var letGo: [String: String] = [:]
    private(set) var acknowledged: [String: Acknowledgement] = [:]
    /// How many lines were read.
    private(set) var lineCount = 0
    /// Whether there are lines that this version does not understand.
    private(set) var hasUnknownLines = false

    /// Reads it line by line: what another version of the app wrote otherwise, and what a crash cut off, is left out.
    init(_ data: Data) {
        for line in data.split(separator: UInt8(ascii: "\n")) {
            guard let row = try? WireJSON.decode(WireValue.self, from: Array(line)), take(row) else {
                hasUnknownLines = true
                continue
            }
            lineCount += 1
        }
    }

    private mutating func take(_ row: WireValue) -> Bool {
        if let jws = row["transaction"]?.text {
            transactions.append(jws)
        } else if let jws = row["renewal"]?.text {
            renewals.append(jws)
        } else if let jws = row["app"]?.text {
            // The last one: its place was taken.
            appTransaction = jws
        } else if let row = row["confirmed"] {
            confirmed.merge(row.members.compactMapValues(\.instant)) { max($0, $1) }
        } else if let row = row["current"] {
            current = row.members.compactMapValues(\.instant)
        } else if let row = row["accounts"] {
            accounts = Set(row.entries.compactMap(\.text))
        } else if let row = row["letGo"] {
            letGo.merge(row.members.compactMapValues(\.text)) { $1 }
        } else if let row = row["acknowledged"] {
            acknowledged.merge(row.members.compactMapValues { Acknowledgement($0) }) { max($0, $1) }
        } else {
            return false
        }
        return true
    }
}

/// Which rows stand in the file of statements.
struct StatementRowLog: Sendable {
    /// Bytes of a file that is never too long for what it holds.
    private static let freeSize = 1 << 16

    private var known: Set<String> = []
    /// The last ones of what takes another's place.
    private var last: [String: String] = [:]
    /// The length of the file, in bytes, about.
    private var size = 0

    /// The rows that are not in the file yet; `nil` where it is better written anew than gone on with, because most of it
    /// is outdated.
    func missing(from rows: [StatementRow]) -> [StatementRow]? {
        let missing = rows.filter { !known.contains($0.id) }
        let live = rows.reduce(0) { $0 + $1.size }
        let isMostlyOutdated = size + missing.reduce(0) { $0 + $1.size } > 2 * live + Self.freeSize
        return isMostlyOutdated ? nil : missing
    }

    /// These were written behind the others, or in their place.
    mutating func note(_ rows: [StatementRow], replacing: Bool) {
        if replacing { self = StatementRowLog() }
        for row in rows {
            if let place = row.place {
                if let last = last[place] { known.remove(last) }
                last[place] = row.id
            }
            known.insert(row.id)
            size += row.size
        }
    }

    /// The file was read: it holds these, and is so long.
    init(_ rows: [StatementRow] = [], size: Int = 0) {
        note(rows, replacing: false)
        self.size = size
    }
}
