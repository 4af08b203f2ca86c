import FuzzTargets

@_extern(c, "LLVMFuzzerMutate")
func mutateBytes(_ bytes: UnsafeMutablePointer<UInt8>, _ count: Int, _ limit: Int) -> Int

/// Half of all variants keep the form of the input; the others are libFuzzer's own.
@_cdecl("LLVMFuzzerCustomMutator")
func mutate(_ bytes: UnsafeMutablePointer<UInt8>, _ count: Int, _ limit: Int, _ seed: UInt32) -> Int {
    guard seed % 2 == 0, let form = Fuzzer.target?.form else { return mutateBytes(bytes, count, limit) }
    var mutator = Mutator(seed: UInt64(seed))
    let input = Array(UnsafeBufferPointer(start: bytes, count: count))
    let variant = mutator.mutated(input, with: input, as: form).prefix(limit)
    for (index, byte) in variant.enumerated() { bytes[index] = byte }
    return variant.count
}
