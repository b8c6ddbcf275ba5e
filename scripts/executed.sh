# Compares the tests that a stage ran, by its log, with the tests in the sources. Sourced by test.sh and fuzz.sh.

# Number of passed tests, from the closing lines of these logs.
passed() { cat -- "$@" | sed -n 's/^test result: .*[^0-9]\([0-9][0-9]*\) passed;.*/\1/p' | awk '{ sum += $1 } END { print sum + 0 }'; }

# Fails unless at least this many ran. A wanted count of 0 also fails: then the count of the sources is wrong.
at_least() {
    local wanted=$1 count=$2 what=$3
    printf 'executed: %d %s, at least %d expected\n' "$count" "$what" "$wanted"
    [ "$wanted" -gt 0 ] && [ "$count" -ge "$wanted" ]
}

# Number of tests in files and folders, except in files that grep finds by the patterns after -e.
tests_in_sources() {
    local places=() left_out=()
    while [ $# -gt 0 ] && [ "$1" != -e ]; do places+=("$1"); shift; done
    if [ $# -gt 0 ]; then mapfile -t left_out < <(grep -rlE "$@" --include='*.rs' "${places[@]}"); fi
    grep -rcE '^ *#\[(tokio::)?test' --include='*.rs' "${places[@]}" | awk -F: -v left_out="${left_out[*]}" '
        BEGIN { split(left_out, names, " "); for (at in names) skip[names[at]] = 1 }
        !($(NF - 1) in skip) { sum += $NF }
        END { print sum + 0 }'
}

# Number of tests that the macro of an engine's conformance suite lists.
conformance_tests() { sed -n '/macro_rules! conformance_tests/,/^        }$/s/^            \([a-z_]*\)$/\1/p' crates/engine/src/conformance/mod.rs | wc -l; }

# Test binaries that contain code of this feature.
names_of_tests_behind() {
    grep -rE "feature = \"$1\"" --include='*.rs' crates/*/tests | grep -v 'not(feature' |
        sed -E 's|^crates/[^/]*/tests/([^/:]*).*|\1|; s|\.rs$||' | sort -u
}

# Fails if a test binary ran no tests, except those named: a wrong filter or `cfg` would look like success.
no_idle_binary() {
    local idle
    idle=$(awk -v but=" $(tr '\n' ' ' <<<"$2")" '
        / Running tests\// { name = $0; sub(/.* Running tests\//, "", name); sub(/(\/main)?\.rs .*/, "", name); next }
        / (Running|Doc-tests) / { name = "" }
        /^running 0 tests$/ && name != "" && index(but, " " name " ") == 0 { print name }' "$1")
    [ -z "$idle" ] || { printf 'test binaries that ran no tests: %s\n' "${idle//$'\n'/ }" >&2; return 1; }
}
