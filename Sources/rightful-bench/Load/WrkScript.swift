/// What `wrk` sends, in its own language.
struct WrkScript: Sendable {
    let name: String
    let text: String

    /// Asks about customers drawn at random from a file of ids of 36 characters, one a line.
    ///
    /// Arguments: the file, how many ids it holds, the API key, the route below the customer, and a query: `plain`,
    /// `at` (an instant at random), or `known_at:N` (a position at random up to N).
    static let customers = WrkScript(
        name: "customers",
        text: common + """
            function init(args)
              math.randomseed(os.time() + id * 7919)
              count = tonumber(args[2])
              file = io.open(args[1])
              if count <= 300000 then
                ids = {}
                for n = 1, count do ids[n] = file:read(36) file:read(1) end
              end
              tail = " HTTP/1.1\\r\\nHost: localhost\\r\\nAuthorization: Bearer " .. args[3] .. "\\r\\n\\r\\n"
              route = "/" .. args[4]
              queries = {}
              if args[5] == "at" then
                for n = 1, 1000 do
                  local instant = 1735689600 + math.random(60000000)
                  queries[n] = os.date("!?at=%Y-%m-%dT%H:%M:%SZ", instant)
                end
              end
              head = tonumber(string.match(args[5], "known_at:(%d+)"))
            end
            function request()
              local n, customer = math.random(count), nil
              if ids then customer = ids[n] else file:seek("set", (n - 1) * 37) customer = file:read(36) end
              local query = ""
              if head then query = "?known_at=" .. math.random(head)
              elseif #queries > 0 then query = queries[math.random(#queries)] end
              return "GET /v1/customers/" .. customer .. route .. query .. tail
            end
            """)

    /// Asks in turn for the proof that an event is in the log, and that a log goes on from an earlier one, each at random.
    ///
    /// Arguments: how long the log is, and the API key.
    static let proofs = WrkScript(
        name: "proofs",
        text: common + """
            function init(args)
              math.randomseed(os.time() + id * 7919)
              head = tonumber(args[1])
              tail = " HTTP/1.1\\r\\nHost: localhost\\r\\nAuthorization: Bearer " .. args[2] .. "\\r\\n\\r\\n"
              inclusion = false
            end
            function request()
              inclusion = not inclusion
              local size = math.random(head)
              local earlier = math.random(size)
              if inclusion then return "GET /v1/events/" .. earlier .. "/proof?size=" .. size .. tail end
              return "GET /v1/ledger/consistency?from=" .. earlier .. "&to=" .. size .. tail
            end
            """)

    /// Sends whole requests from a file, drawn at random, over and over.
    ///
    /// Argument: a file of requests, each after its length in eight digits and a newline.
    static let requestsAtRandom = WrkScript(
        name: "requests-at-random",
        text: common + """
            function init(args)
              math.randomseed(os.time() + id * 7919)
              requests = {}
              local file = io.open(args[1])
              while true do
                local length = file:read(9)
                if not length then break end
                requests[#requests + 1] = file:read(tonumber(length))
              end
            end
            function request() return requests[math.random(#requests)] end
            """)

    /// Sends whole requests from files, one of each thread's own, each once and in order.
    ///
    /// Argument: the files' name without the thread's number, which follows it. When a file ends, what is sent is
    /// refused, so that the run fails rather than to count repetitions.
    static let requestsOnce = WrkScript(
        name: "requests-once",
        text: common + """
            function init(args) file = io.open(args[1] .. id, "rb") end
            function request()
              local length = file:read(9)
              if not length then return "GET /there-was-nothing-left-to-send HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n" end
              return file:read(tonumber(length))
            end
            """)

    /// Numbers the threads, and prints what was measured on one line.
    private static let common = """
        local started = 0
        function setup(thread) thread:set("id", started) started = started + 1 end
        function done(summary, latency, requests)
          local e = summary.errors
          io.write(string.format("\\nresult %d %d %d %d %d %d %d %d %d\\n", summary.requests, summary.duration,
            e.connect, e.read, e.write, e.status, e.timeout, latency:percentile(50), latency:percentile(99)))
        end

        """
}
