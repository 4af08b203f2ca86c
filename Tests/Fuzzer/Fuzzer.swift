import Foundation
import FuzzTargets

/// What libFuzzer calls, which brings the program's `main` and is guided by the code that each input has reached.
///
/// The variable `RIGHTFUL_FUZZ_TARGET` names the target; the arguments are libFuzzer's.
enum Fuzzer {
    /// Read for the first input; libFuzzer runs everything on one thread.
    static let target: FuzzTarget? = {
        let name = ProcessInfo.processInfo.environment["RIGHTFUL_FUZZ_TARGET"]
        return try? FuzzTarget.all(FuzzCorpus()).first { $0.name == name }
    }()
}

@_cdecl("LLVMFuzzerTestOneInput")
func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard let target = Fuzzer.target else {
        print("RIGHTFUL_FUZZ_TARGET names no target")
        exit(2)
    }
    do {
        _ = try target.run(Array(UnsafeBufferPointer(start: start, count: count)))
    } catch {
        print("finding: \(error)")
        abort()
    }
    return 0
}
