# shellcheck shell=bash
# The long campaigns of deploy/test; to be sourced by it.

# Lets libFuzzer make up inputs for each reader of strangers' bytes, $1 seconds each, and then sends as many hundreds of
# hostile requests to a running service. Ends with a table, and fails where anything crashed, hung or was believed.
#
# RIGHTFUL_TEST_SEED repeats what was made up without libFuzzer; without it each campaign has a seed of its own, and prints it.
fuzz() {
    local seconds=$1 work=.build/fuzz program target failed=0 names running=0
    RIGHTFUL_FUZZER=1 swift build -c release --sanitize fuzzer --product rightful-fuzz --scratch-path .build/fuzzer
    program=$(RIGHTFUL_FUZZER=1 swift build -c release --scratch-path .build/fuzzer --show-bin-path)/rightful-fuzz
    names=$(find Tests/FuzzCorpus -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort)
    mkdir -p "$work/findings"
    for target in $names; do
        mkdir -p "$work/corpus/$target"
        ((running < $(nproc))) || { wait -n || true; running=$((running - 1)); }
        # What was reached before is kept in .build, and gone on from. Beside libFuzzer's own limits, a limit on the program,
        # which also ends what hangs outside of an input.
        RIGHTFUL_FUZZ_TARGET=$target timeout --kill-after=10 "$((2 * seconds + 60))" "$program" \
            -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1 \
            -artifact_prefix="$work/findings/$target-" "$work/corpus/$target" "Tests/FuzzCorpus/$target" \
            >"$work/$target.log" 2>&1 &
        running=$((running + 1))
    done
    wait
    printf '\n%-16s %12s %8s %8s %10s  %s\n' target inputs seconds 'MB' reached outcome
    for target in $names; do
        awk -v name="$target" '
            /^#[0-9]+\t(DONE|INITED|NEW|REDUCE|pulse)/ { for (i = 1; i < NF; i++) if ($i == "cov:") reached = $(i + 1) }
            /^Done [0-9]+ runs in/ { inputs = $2; seconds = $5 }
            /peak_rss_mb/ { memory = $2 }
            END {
                outcome = inputs == "" ? "FAILED" : "nothing found"
                printf "%-16s %12s %8s %8s %10s  %s\n", name, inputs, seconds, memory, reached, outcome
                exit inputs == ""
            }' "$work/$target.log" || {
            failed=1
            grep -E 'finding:|ERROR|SUMMARY|Fatal|Test unit written' "$work/$target.log" | cut -c 1-300 || true
            for finding in "$work/findings/$target-"*; do
                [[ ! -e $finding ]] || printf '%s: %s\n' "$finding" "$(od -An -v -tx1 "$finding" | tr -d ' \n' | cut -c 1-20000)"
            done
        }
    done
    cat "$work"/*.log | awk '/^Done [0-9]+ runs in/ { inputs += $2; seconds += $5 }
        END { printf "%d inputs in %d s of libFuzzer\n\n", inputs, seconds }'
    RIGHTFUL_TEST_REQUESTS=$((seconds * 100)) RIGHTFUL_TEST_SEED=${RIGHTFUL_TEST_SEED:-$RANDOM} \
        swift test --no-parallel --filter 'ServiceFuzzTests' || failed=1
    return "$failed"
}

# Lets $1 things fail around a service under load: see Tests/EndToEndTests/Failures.
failures() {
    RIGHTFUL_TEST_FAILURES=$1 RIGHTFUL_TEST_SEED=${RIGHTFUL_TEST_SEED:-$RANDOM} \
        swift test --no-parallel --filter FailureCampaignTests
}
