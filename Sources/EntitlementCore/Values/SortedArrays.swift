extension [Int64] {
    /// Positions of events in ascending order, together with more of them in any order: ascending, each of them once.
    func union(_ more: [Int64]) -> [Int64] {
        var all = self
        for position in more {
            // What is told of later mostly has the greater position.
            let index =
                (all.last.map { $0 < position } ?? true) ? all.endIndex : all.partitioningIndex { position <= $0 }
            if index == all.endIndex || all[index] != position { all.insert(position, at: index) }
        }
        return all
    }
}

extension Array {
    /// The first index whose element satisfies the predicate, found by halves; all elements after it satisfy it too.
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
