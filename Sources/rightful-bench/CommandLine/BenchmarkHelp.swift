/// What `rightful-bench --help` prints.
enum BenchmarkHelp {
    static let text = """
        rightful-bench: what the product does in a second, each figure beside its limit on this machine.

        Usage: rightful-bench [all | ROW…] [OPTIONS]
               rightful-bench page RUN.json PAGE.md    writes a run's figures into the results page
               rightful-bench samples DIRECTORY        writes evidence to train the dictionary with that compresses it

        Every row starts a `rightful serve` or a worker of its own on a new ledger in an embedded PostgreSQL with the
        product's own durability. Load comes from other processes over real sockets: wrk for HTTP, pgbench, psql and
        openssl for limits. Limit and figure are measured in turn, --rounds times.

          reads          GET …/entitlements of random customers by wrk
                         limit: pgbench -S -M prepared, as many connections, its own tables in the same PostgreSQL, about
                         as many rows as the log has events
                         also: each customer's first read after the service's start (each once, by a process of ours),
                         and reads with If-None-Match
          past-reads     the same with `at`, an instant at random, and `known_at`, a position at random
                         limit: plain reads by as many connections
          append         a process appends verified facts with evidence, made beforehand, through the ledger's writer,
                         1, 8, 64 and 256 at a time
                         limit: batches of 100 rows of the same bytes (facts, evidence, keys), the evidence not yet
                         compressed, into a table that has only a primary key, by the same client library
                         also: beside rows whose evidence is compressed
                         also: psql's \\copy of the rows written last into tables with the same indexes, one
                         transaction for each table: what PostgreSQL alone needs for them
          notifications  distinct signed notifications, made beforehand, by wrk, each once
                         limit: a third of `openssl speed ecdsap256` on all cores, for each has three signatures
                         also: bytes on disk of all tables and indexes after a checkpoint, beside the request bodies
          sweep          the same notifications read from the history of a simulated store in the benchmark's own process, at
                         the service's start
                         limits: the service's half of the store's requests, twenty notifications each; and the same
                         notifications sent to another ledger, eight at a time
                         also: a second start, which has only the overlap to read
          launches       POST …/reconcile by wrk: a thousand customers' four transactions, renewal information and app
                         transaction, all posted before
          rebuild        `rightful rebuild`, and the most memory it held (VmHWM)
                         limit: psql's COPY (what the fold reads) TO STDOUT (FORMAT binary)
          readable       one process posts first notifications at half of the greatest rate, another asks until the
                         entitlement is there: p99 from sending to reading, and to the answer
                         limit: p99 of a bare commit of one row by pgbench
                         also: p99 of as many bare commits a second, from the instant at which each was to begin
          long-lives     subscribers with 60 periods beside those with 5
          webhooks       a change of a customer's answer, told to each of --endpoints endpoints of one receiver, a process of its
                         own, three changes a round, each when the one before has reached every endpoint
                         limit: requests of as many bytes to the same receiver, by a bare client with 64 connections
                         also: p99 from the change's instant to its arrival, with one more endpoint that takes connections
                         and never answers, beside the same without it
          growth         one ledger that grows: reads, explain, proofs, append, and start to ready (PostgreSQL being up)
                         at each of --sizes, in turn with one of the smallest size that is made anew; rebuild at the largest.
                         Reads are of 10000 customers, spread over all; the first ones of a service just started. A
                         twentieth of the log is appended before appends are measured, so that they do not follow a
                         checkpoint at once

          --seconds S        how long each figure is measured, over all rounds; default 4
          --rounds N         default 2
          --connections N,…  of reads, notifications and launches; default 1,8,64
          --events N         in the log for reads, past-reads and rebuild; default 100000
          --endpoints N      of webhooks; default 1000
          --sizes N,…        of the log, for growth; default 20000,200000
          --directory DIR    where databases lie meanwhile; default the system's temporary directory
          --json             prints one JSON document at the end instead of a table
          --output FILE      writes that document to a file as well

        "ratio" is the figure beside its limit. "by cpu" is the same by processor time (the limit's for one operation
        beside ours, load included): what to compare where other work shares the machine. "others" says how much of the
        machine that work had; above a tenth, targets are judged by processor time. A target that is missed is said and
        is no failure: the exit status is 0 when all was measured.

        Build with `swift build -c release`: figures of a debug build mean nothing.
        """
}
