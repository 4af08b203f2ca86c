/// Those who listen to a stream of values, each with a stream of its own.
struct Listeners<Element: Sendable> {
    private var continuations: [Int: AsyncStream<Element>.Continuation] = [:]
    private var last = 0

    var count: Int { continuations.count }

    mutating func add(_ continuation: AsyncStream<Element>.Continuation) -> Int {
        last += 1
        continuations[last] = continuation
        return last
    }

    mutating func remove(_ number: Int) { continuations[number] = nil }

    func send(_ element: Element) {
        for continuation in continuations.values { continuation.yield(element) }
    }

    mutating func finish() {
        for continuation in continuations.values { continuation.finish() }
        continuations = [:]
    }
}
