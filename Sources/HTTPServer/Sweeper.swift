import Dispatch
import Synchronization

/// Does something again and again until it is stopped.
///
/// On a thread of Dispatch, since handlers may keep all of Swift's own threads busy.
final class Sweeper: Sendable {
    private let timer: Mutex<any DispatchSourceTimer>

    init(every interval: Duration, _ sweep: @escaping @Sendable () -> Void) {
        let timer = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "http-sweeper"))
        let milliseconds = Int(interval / .milliseconds(1))
        timer.schedule(
            deadline: .now() + .milliseconds(milliseconds), repeating: .milliseconds(milliseconds),
            leeway: .milliseconds(milliseconds / 4))
        timer.setEventHandler(handler: sweep)
        timer.activate()
        self.timer = Mutex(timer)
    }

    func stop() { timer.withLock { $0.cancel() } }
}
