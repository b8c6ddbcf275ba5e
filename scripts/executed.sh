# How much a stage executed, from what its runner printed and from what the sources hold. Sourced by test.sh and fuzz.sh.

# Tests that passed, by the closing lines in these logs.
passed() { cat -- "$@" | sed -n 's/^test result: .*[^0-9]\([0-9][0-9]*\) passed;.*/\1/p' | awk '{ sum += $1 } END { print sum + 0 }'; }

# Fails unless so many were executed. Where nothing is wanted, whoever counted the sources found nothing: that fails, too.
at_least() {
    local wanted=$1 count=$2 what=$3
    printf 'executed: %d %s, at least %d are wanted\n' "$count" "$what" "$wanted"
    [ "$wanted" -gt 0 ] && [ "$count" -ge "$wanted" ]
}

# Tests in the files below a folder, or in a file; without files that grep finds by what follows.
tests_in_sources() {
    local places=() left_out=()
    while [ $# -gt 0 ] && [ "$1" != -e ]; do places+=("$1"); shift; done
    if [ $# -gt 0 ]; then mapfile -t left_out < <(grep -rlE "$@" --include='*.rs' "${places[@]}"); fi
    grep -rcE '^ *#\[(tokio::)?test' --include='*.rs' "${places[@]}" | awk -F: -v left_out="${left_out[*]}" '
        BEGIN { split(left_out, names, " "); for (at in names) skip[names[at]] = 1 }
        !($(NF - 1) in skip) { sum += $NF }
        END { print sum + 0 }'
}

# The tests that an engine's conformance stands for: the names that the macro lists.
conformance_tests() { sed -n '/macro_rules! conformance_tests/,/^        }$/s/^            \([a-z_]*\)$/\1/p' crates/engine/src/conformance/mod.rs | wc -l; }

# Test binaries of which a part or all is there only with a feature.
names_of_tests_behind() {
    grep -rE "feature = \"$1\"" --include='*.rs' crates/*/tests | grep -v 'not(feature' |
        sed -E 's|^crates/[^/]*/tests/([^/:]*).*|\1|; s|\.rs$||' | sort -u
}

# Fails if a binary of tests ran nothing, except those named: a filter or a `cfg` too many looks like success.
no_idle_binary() {
    local idle
    idle=$(awk -v but=" $(tr '\n' ' ' <<<"$2")" '
        / Running tests\// { name = $0; sub(/.* Running tests\//, "", name); sub(/(\/main)?\.rs .*/, "", name); next }
        / (Running|Doc-tests) / { name = "" }
        /^running 0 tests$/ && name != "" && index(but, " " name " ") == 0 { print name }' "$1")
    [ -z "$idle" ] || { printf 'binaries of tests that ran nothing: %s\n' "${idle//$'\n'/ }" >&2; return 1; }
}
