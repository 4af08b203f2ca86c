import CMalloc

/// How the C library's allocator, which Swift uses, gives memory back to the system.
enum Allocator {
    /// Lets the process keep what it will need again at once.
    ///
    /// By default a thread's heap is given back as soon as 128 KiB at its end are free, and blocks of that size are mapped and
    /// unmapped one by one. A request and the batch that it is written with take and free more than that, so a twelfth of
    /// the processor time of a notification went into taking back from the system, page by page, what had just been
    /// given to it.
    static func keepFreedMemory() {
        mallopt(M_TRIM_THRESHOLD, 256 << 20)
        mallopt(M_MMAP_THRESHOLD, 32 << 20)
    }
}
