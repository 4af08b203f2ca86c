extension [Int64] {
    /// Adds more positions, in any order, to an ascending list of event positions; the result is ascending and has no
    /// position twice.
    func union(_ more: [Int64]) -> [Int64] {
        var all = self
        for position in more {
            // Positions that are added later are mostly the greatest, so look at the end first.
            let index =
                (all.last.map { $0 < position } ?? true) ? all.endIndex : all.partitioningIndex { position <= $0 }
            if index == all.endIndex || all[index] != position { all.insert(position, at: index) }
        }
        return all
    }
}

extension Array {
    /// The first index whose element satisfies the predicate, by binary search; all later ones must satisfy it.
    func partitioningIndex(where isSecond: (Element) -> Bool) -> Int {
        var low = startIndex
        var high = endIndex
        while low < high {
            let middle = low + (high - low) / 2
            if isSecond(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
