# Runs failed tests once more. Sourced by test.sh, after executed.sh; LOGS is the folder of the logs, and the array `notes`
# holds lines of the summary.

# Runs a command and copies its output to a file under $LOGS.
logged() {
    local log=$LOGS/$1.log
    shift
    "$@" 2>&1 | tee "$log"
    return "${PIPESTATUS[0]}"
}

# Runs the tests that failed in a stage once more, without the others, because a busy machine can delay one of them past
# its patience. The summary names those that pass now. More than three are no accident.
#
#   once_more STAGE STATUS COMMAND...: a command of `cargo test`, up to its `--`
once_more() {
    local stage=$1 status=$2 names
    shift 2
    [ "$status" = 101 ] || return "$status"
    mapfile -t names < <(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$LOGS/$stage.log" | sort -u)
    if [ ${#names[@]} = 0 ] || [ ${#names[@]} -gt 3 ]; then return "$status"; fi
    printf '\n-- once more, without the others: %s\n' "${names[*]}"
    logged "$stage-again" timeout --kill-after=10 600 "$@" -- --exact "${names[@]}" &&
        at_least "${#names[@]}" "$(passed "$LOGS/$stage-again.log")" 'tests once more' || return
    notes+=("$(printf '%-9s failed beside others and passed without: %s' "$stage" "${names[*]}")")
}
