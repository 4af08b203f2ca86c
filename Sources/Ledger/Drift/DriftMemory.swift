/// The differences that the log shows up to a position, told apart without a look at what is stored of them.
///
/// Of those that cannot change any more a hash is kept, which is another one in each process.
struct DriftMemory {
    private(set) var streams = StreamBeginnings()
    /// By position, each with its keys.
    private(set) var hashes: [Int64: Int] = [:]
    private var open: [Int64: (row: DriftRow, keys: Set<DriftKey>)] = [:]
    private var index: [DriftKey: Set<Int64>] = [:]

    /// Whether none can change any more.
    var isQuiet: Bool { open.isEmpty }

    static func hash(_ row: DriftRow, _ keys: Set<DriftKey>) -> Int {
        var hasher = Hasher()
        hasher.combine(row)
        hasher.combine(keys)
        return hasher.finalize()
    }

    /// The differences on which some of these keys bear, each beside its keys.
    func rows(with keys: Set<DriftKey>) -> [(row: DriftRow, keys: Set<DriftKey>)] {
        keys.reduce(into: Set<Int64>()) { $0.formUnion(index[$1] ?? []) }.compactMap { open[$0] }
    }

    /// Takes over what came of the next stretch.
    mutating func take(_ page: DriftPage) {
        streams = page.streams
        for (row, keys) in page.outcome {
            for key in open.removeValue(forKey: row.position)?.keys ?? [] {
                index[key]?.remove(row.position)
                if index[key]?.isEmpty ?? false { index[key] = nil }
            }
            hashes[row.position] = Self.hash(row, keys)
            guard !keys.isEmpty else { continue }
            open[row.position] = (row, keys)
            for key in keys { index[key, default: []].insert(row.position) }
        }
    }
}
