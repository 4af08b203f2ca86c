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
    /// What it is about.
    let subject: String
    /// The same for what says the same.
    let content: String
    /// When the store signed it; `nil` for what it does not sign.
    var signedDate: Timestamp?
    private let member: String
    private let value: WireValue

    private init(_ member: String, about id: String = "", _ content: String, _ value: WireValue) {
        subject = "\(member) \(id)"
        (self.content, self.member, self.value) = (content, member, value)
    }

    static func transaction(_ transaction: DeviceTransaction) -> StatementRow {
        let payload = transaction.payload
        var row = StatementRow(
            "transaction", about: payload.transactionID, transaction.contentHash.hex, .string(transaction.jws))
        row.signedDate = payload.signedDate ?? .earliest
        return row
    }

    static func renewal(_ renewal: DeviceRenewal) -> StatementRow {
        let payload = renewal.payload
        var row = StatementRow(
            "renewal", about: payload.originalTransactionID, renewal.contentHash.hex, .string(renewal.jws))
        row.signedDate = payload.signedDate ?? .earliest
        return row
    }

    /// One that was only signed anew takes the place of the last one once a day at most.
    static func app(_ app: DeviceAppTransaction) -> StatementRow {
        let day = (app.payload.signedDate ?? .earliest).day
        return StatementRow("app", "\(app.customerID?.value ?? "") \(app.payload.environment) \(day)", .string(app.jws))
    }

    static func confirmed(_ originalTransactionID: String, _ instant: Timestamp) -> StatementRow {
        StatementRow(
            "confirmed", about: originalTransactionID, "\(instant.milliseconds)",
            .object([originalTransactionID: .string(instant.description)]))
    }

    static func current(_ listed: [String: Timestamp]) -> StatementRow {
        let list = listed.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.milliseconds)" }
        return StatementRow(
            "current", list.joined(separator: " "), .object(listed.mapValues { .string($0.description) }))
    }

    static func accounts(_ accounts: Set<String>) -> StatementRow {
        let list = accounts.sorted()
        return StatementRow("accounts", list.joined(separator: " "), .array(list.map { .string($0) }))
    }

    static func acknowledged(_ transactionID: String, _ acknowledgement: Acknowledgement) -> StatementRow {
        let (deed, at) = (acknowledgement.deed, acknowledgement.signedDate)
        return StatementRow(
            "acknowledged", about: transactionID, "\(deed.rawValue) \(at.milliseconds)",
            .object([transactionID: .object(["deed": .string(deed.rawValue), "at": .string(at.description)])]))
    }

    static func letGo(_ transactionID: String, _ content: String) -> StatementRow {
        StatementRow("letGo", about: transactionID, content, .object([transactionID: .string(content)]))
    }

    /// About how many bytes its line has.
    var size: Int {
        if case .string(let text) = value { text.utf8.count + 20 } else { subject.utf8.count + content.utf8.count + 40 }
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

    /// What the last row about each subject says, where the store did not sign it.
    private var last: [String: String] = [:]
    /// What the store has signed about each subject, the oldest first.
    private var signed: [String: [Saying]] = [:]
    /// The length of the file, in bytes, about.
    private var size = 0

    private struct Saying: Hashable {
        let content: String
        let signedDate: Timestamp
    }

    /// The rows that are not in the file yet; `nil` where it is better written anew than gone on with, because most of it
    /// is outdated.
    func missing(from rows: [StatementRow]) -> [StatementRow]? {
        var all = self
        var missing: [StatementRow] = []
        for row in rows where !all.holds(row) {
            all.add(row)
            missing.append(row)
        }
        let live = rows.reduce(0) { $0 + $1.size }
        return all.size > 2 * live + Self.freeSize ? nil : missing
    }

    /// Whether the file says what a row says.
    ///
    /// The store may sign everything anew whenever it is asked. So what says the same as the statement before it in the file, or
    /// as the one after it, is written once a day at most. Only those count, because what was taken back, and then said again,
    /// is news on the same day as well.
    private func holds(_ row: StatementRow) -> Bool {
        guard let signedDate = row.signedDate else { return last[row.subject] == row.content }
        let sayings = signed[row.subject] ?? []
        let next = sayings.firstIndex { $0.signedDate > signedDate } ?? sayings.endIndex
        let beside = [sayings[..<next].last, sayings[next...].first].compactMap(\.self)
        return beside.contains { $0.content == row.content && $0.signedDate.day == signedDate.day }
            || sayings.contains(Saying(content: row.content, signedDate: signedDate))
    }

    private mutating func add(_ row: StatementRow) {
        size += row.size
        guard let signedDate = row.signedDate else {
            last[row.subject] = row.content
            return
        }
        let saying = Saying(content: row.content, signedDate: signedDate)
        let sayings = signed[row.subject] ?? []
        let next = sayings.firstIndex { $0.signedDate > signedDate } ?? sayings.endIndex
        signed[row.subject, default: []].insert(saying, at: next)
    }

    /// These were written behind the others, or in their place.
    mutating func note(_ rows: [StatementRow], replacing: Bool) {
        if replacing { self = StatementRowLog() }
        for row in rows { add(row) }
    }

    /// The file was read: it holds these, and is so long.
    init(_ rows: [StatementRow] = [], size: Int = 0) {
        note(rows, replacing: false)
        self.size = size
    }
}

extension Timestamp {
    fileprivate var day: Int64 { milliseconds / 86_400_000 }
}
