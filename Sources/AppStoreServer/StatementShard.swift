import EntitlementCore
import Synchronization

/// A statement's hash and kind, as a key that takes no memory of its own.
struct StatementName: Hashable, Sendable {
    let words: (UInt64, UInt64, UInt64, UInt64)
    let kind: RememberedKind

    init(_ hash: Digest, _ kind: RememberedKind) {
        words = hash.bytes.withUnsafeBytes { $0.loadUnaligned(as: (UInt64, UInt64, UInt64, UInt64).self) }
        self.kind = kind
    }

    static func == (left: StatementName, right: StatementName) -> Bool {
        left.words == right.words && left.kind == right.kind
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(kind)
    }
}

/// One part of the remembered statements, under a lock of its own.
final class StatementShard: Sendable {
    let state: Mutex<State>

    init(byteLimit: Int) { state = Mutex(State(byteLimit: byteLimit)) }

    /// Statements in a circle, around which a hand goes to find the next one to forget.
    ///
    /// It passes by what was asked for since it came by last, and takes the mark of that away.
    struct State: Sendable {
        private struct Slot: Sendable {
            let name: StatementName
            let statement: any AnyObject & Sendable
            let byteCount: Int
            var wasUsed = false
        }

        private let byteLimit: Int
        private var places: [StatementName: Int] = [:]
        private var slots: [Slot] = []
        private var hand = 0
        private(set) var byteCount = 0

        init(byteLimit: Int) { self.byteLimit = byteLimit }

        var count: Int { slots.count }

        func contains(_ name: StatementName) -> Bool { places[name] != nil }

        mutating func statement(_ name: StatementName) -> (any AnyObject & Sendable)? {
            guard let place = places[name] else { return nil }
            slots[place].wasUsed = true
            return slots[place].statement
        }

        /// Remembers a statement that is not too large, and forgets as many others as that takes.
        mutating func remember(_ statement: any AnyObject & Sendable, _ name: StatementName, byteCount: Int) {
            guard places[name] == nil, byteCount <= byteLimit else { return }
            while self.byteCount + byteCount > byteLimit { forgetOne() }
            places[name] = slots.count
            slots.append(Slot(name: name, statement: statement, byteCount: byteCount))
            self.byteCount += byteCount
        }

        /// The last of the circle takes the place of the one that goes.
        private mutating func forgetOne() {
            if hand >= slots.count { hand = 0 }
            while slots[hand].wasUsed {
                slots[hand].wasUsed = false
                hand = (hand + 1) % slots.count
            }
            let forgotten = slots[hand]
            places[forgotten.name] = nil
            byteCount -= forgotten.byteCount
            let last = slots.removeLast()
            if hand < slots.count {
                slots[hand] = last
                places[last.name] = hand
                hand += 1
            }
        }
    }
}
