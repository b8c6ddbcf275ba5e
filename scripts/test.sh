#!/usr/bin/env bash
# Runs the checks and tests, for contributors and for CI.
#
#   scripts/test.sh [all|test|quick|soak|STAGE...]
#
# Needs cargo and a linker. A stage whose tool is missing is skipped and prints how to install it. With CI=1 or
# INSTALL_TOOLS=1, rustup installs missing toolchain parts. The first stage that fails ends the run. The summary lists
# what was skipped. A stage that ran fewer tests than the sources contain fails.
#
#   KEEP_GOING      1: a failed stage does not end the run, so that one run reports all failures
#   REQUIRE_STAGES  1: a skipped stage or part of a stage fails the run, unless scripts/may-skip lists it; so do tests
#                   that a stage leaves to another stage which this run does not include
#   MAY_SKIP        further stages that may be skipped, because another job runs them
#   FUZZ_SECONDS    seconds per fuzz target (6)
#   MIRI_SHARE      PART/PARTS: Miri runs one part of its tests, 0/3, 1/3 or 2/3; they are dealt out one by one (0/1: all)
#   MIRI_TIMEOUT    seconds until one core's part of the Miri stage fails (1800)
#   TSAN_TIMEOUT    seconds until the stress tests under ThreadSanitizer fail (1800)
#   TESTS_TIMEOUT   seconds until the tests, once built, fail (1800)
#   FULL            1: single stages also use the build of `all`: DPDK, the peers of the benchmarks, profile `gate`
#   CLUSTER_SEEDS   seeds of the simulation of clusters (150; 250 in `all`)
#   LAB_TIMEOUT     seconds until the lab fails (1500)
#   CHECK_TIMEOUT   seconds until one of the checks beside the repository fails (600)
#   REQUIRE_NAMESPACES  1: tests that need network namespaces fail without the right to create them
#   REQUIRE_HUGE_PAGES  1: tests that need huge pages fail without enough of them
#   REQUIRE_AVX512  1: tests of kernels fail if the processor lacks AVX-512, or any variant of it
#   NATS_TIMEOUT    seconds until the tests with NATS servers fail (600)
#   REQUIRE_NATS    1: a missing nats-server fails the nats stage instead of skipping it; the lab needs one too
#   REQUIRE_FRR     1: a missing FRR fails the test with a real BGP speaker instead of skipping it
#   REQUIRE_DASHBOARD  1: a missing Chromium or Python package fails the dashboard stage instead of skipping it
#   DASHBOARD_TIMEOUT  seconds until the browser test of the dashboard fails (600)
#   REQUIRE_TSHARK  1: a missing tshark fails the packets stage instead of skipping it
#   SOAK_RUNS       how often the soak stage, which is not part of `all`, runs every test (20)
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/executed.sh
# shellcheck source=scripts/once-more.sh
. scripts/once-more.sh

ALL="format scripts monitoring clippy doc compile tests docs checks packets dashboard nats lab deny bindings loom miri miri_avx2 tsan msrv aarch64 fuzz"
# Stages of `all` that start once everything is compiled and run beside the others at low priority: tests and labs often
# wait for timers, and the results of these stages do not depend on time.
BESIDE="deny bindings loom miri miri_avx2 tsan msrv aarch64 fuzz"
# `make test`: all tests in the sources. Other stages repeat some of them with other tools or networks.
TEST="format scripts tests docs"
QUICK="format scripts clippy changed layering"
# Dated, so that a new nightly cannot break an unchanged build.
NIGHTLY=nightly-2026-05-20
MSRV=$(sed -n 's/^rust-version = "\(.*\)"/\1.0/p' Cargo.toml)
PINNED=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
PORTABLE="-p scalebricks-types -p scalebricks-tables -p scalebricks-wire -p scalebricks-io -p scalebricks-flows -p scalebricks-graph -p scalebricks-elements -p scalebricks-click -p scalebricks-apps -p scalebricks-control"
LOGS=target/test-logs
# Tests of the stage nats; the stage `tests` builds them and skips them by this name.
NATS_TESTS=nats_servers
# What drives the browser, and axe-core. Chromium itself is a package of the system.
BROWSER_PACKAGES="playwright==1.65.2 axe-playwright-python==0.1.8"
NATS_SOURCES=(crates/engine/tests/$NATS_TESTS crates/scalebricks/tests/$NATS_TESTS crates/scalebricks/tests/$NATS_TESTS.rs)
# Features that the stages clippy and doc have in addition. They compile everywhere; their tests need other machines.
CHECKED=scalebricks-bench/cuda,scalebricks-python/extension
# Exit status of a stage that cannot run here.
SKIPPED=77

mkdir -p "$LOGS"
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-auto}

skip() {
    why=$1
    printf 'skipped: %s\n' "$1"
    return $SKIPPED
}

may_install() { [ "${CI:-}" = 1 ] || [ "${CI:-}" = true ] || [ "${INSTALL_TOOLS:-}" = 1 ]; }

# Whether rustup has the toolchain with the given components; installs them if allowed.
have_toolchain() {
    local toolchain=$1
    shift
    command -v rustup >/dev/null || return 1
    local component is_complete=1
    rustup run "$toolchain" rustc --version >/dev/null 2>&1 || is_complete=0
    for component in "$@"; do
        rustup component list --toolchain "$toolchain" --installed 2>/dev/null | grep -q "^$component" || is_complete=0
    done
    [ $is_complete = 1 ] && return 0
    may_install || return 1
    local options=()
    for component in "$@"; do options+=(--component "$component"); done
    rustup toolchain install "$toolchain" --profile minimal "${options[@]}"
}

has_dpdk() { pkg-config --atleast-version=22.11 libdpdk 2>/dev/null; }

# One set of features for all stages of a run, so that no crate is built twice. `all` uses every feature that this
# machine can build; other runs need only cargo.
features() {
    local features=scalebricks-bench/peers
    has_dpdk && features+=,scalebricks/dpdk,scalebricks-bench/dpdk
    printf -- '--features %s' $features
}

# `all` builds everything once: the tests, the lab and the checks use one build, with the assertions of tests. Link-time
# optimisation and the last levels of optimisation take minutes and do not change what the program does.
full_build() {
    FEATURES=$(features)
    PROFILE=(--profile gate)
    # Of clippy, rustdoc and checks: they share build scripts and macros with the tests.
    CHECKS=("${PROFILE[@]}")
    BUILT=$TARGET/gate
    export CLUSTER_SEEDS=${CLUSTER_SEEDS:-250}
}

# Runs a command that builds; the summary shows its seconds separately.
building() {
    local began=$SECONDS status
    "$@"
    status=$?
    built=$((built + SECONDS - began))
    return $status
}

stage_format() {
    cargo fmt --version >/dev/null 2>&1 || { skip 'no rustfmt (install with: rustup component add rustfmt)'; return; }
    # cargo fmt does not find modules that a macro declares; format these files by name.
    cargo fmt --all --check && git ls-files -z 'crates/elements/src/*.rs' | xargs -0 rustfmt --edition 2024 --check
}

# Tests of scripts whose verdict others rely on.
stage_scripts() { logged scripts scripts/gateway-ab-test && logged once-more scripts/once-more-test; }

# Alert rules and the Grafana dashboard, against the names of the program's metrics.
stage_monitoring() {
    command -v promtool >/dev/null || { skip 'no promtool (on Debian: apt install prometheus)'; return; }
    logged monitoring scripts/monitoring-check
}

# shellcheck disable=SC2086 # a list of options
stage_clippy() {
    cargo clippy --version >/dev/null 2>&1 || { skip 'no clippy (install with: rustup component add clippy)'; return; }
    if rustc --version | grep -qF "rustc $PINNED "; then
        cargo clippy --workspace --all-targets --locked "${CHECKS[@]}" $FEATURES --features $CHECKED -- -D warnings
    else
        echo "this is not the clippy of Rust $PINNED: its warnings do not fail the run"
        cargo clippy --workspace --all-targets --locked "${CHECKS[@]}" $FEATURES --features $CHECKED
    fi
}

# Every link in rustdoc resolves. Without DPDK, the crate scalebricks-dpdk is empty except for links.
# shellcheck disable=SC2086 # a list of options
stage_doc() {
    local without=()
    [[ $FEATURES == */dpdk* ]] || without=(--exclude scalebricks-dpdk)
    RUSTDOCFLAGS='-D warnings' logged doc cargo doc --workspace --locked --no-deps --keep-going "${CHECKS[@]}" $FEATURES --features $CHECKED "${without[@]}"
}

# Everything that the tests, the lab and the checks run.
# shellcheck disable=SC2086 # a list of options
stage_compile() { cargo test --workspace --locked "${PROFILE[@]}" $FEATURES --no-run; }

# The program, as the integration tests use it.
# shellcheck disable=SC2086 # a list of options
# Arguments: what else to build.
stage_build() { building cargo test --workspace --locked "${PROFILE[@]}" $FEATURES --test integration "$@" --no-run; }

# Checks that need data outside the repository, such as captures of real traffic: runs every executable in
# ../shared/checks from the repository's root, with the absolute path of the program in SCALEBRICKS.
stage_checks() {
    local folder=../shared/checks program check failed=0 found=0
    [ -d $folder ] || { skip "no folder $folder beside the repository"; return; }
    stage_build || return
    program=$(realpath -m -- "$BUILT/scalebricks")
    for check in $folder/*; do
        if ! [ -f "$check" ] || ! [ -x "$check" ]; then continue; fi
        found=1
        printf -- '-- %s\n' "${check##*/}"
        SCALEBRICKS=$program logged "check-${check##*/}" timeout --kill-after=10 "${CHECK_TIMEOUT:-600}" "$check" ||
            { printf 'FAILED %s\n' "${check##*/}"; failed=1; }
    done
    [ $found = 1 ] || { printf 'no executable in %s\n' "$folder" >&2; return 1; }
    return $failed
}

# All tests except those with NATS servers, which have their own stage.
# shellcheck disable=SC2086 # a list of options
stage_tests() {
    local dpdk='' absent=(-e 'fn loom_')
    # Tests of the feature `cuda` need its binding; CONTRIBUTING.md has the command.
    [[ $FEATURES == */cuda* ]] || absent+=(-e 'feature = "cuda"')
    if [[ $FEATURES != */dpdk* ]]; then
        dpdk=$(names_of_tests_behind dpdk)
        absent+=(-e 'feature = "')
    fi
    # The fuzz crate has its own lock file, which must match our dependencies.
    cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null || return
    building cargo test --workspace --locked "${PROFILE[@]}" $FEATURES --no-run || return
    local tests=(cargo test --workspace --locked "${PROFILE[@]}" $FEATURES --no-fail-fast)
    with_huge_pages logged tests timeout --kill-after=10 "${TESTS_TIMEOUT:-1800}" "${tests[@]}" -- --skip "$NATS_TESTS::" --test-threads "$THREADS" ||
        with_huge_pages once_more tests $? "${tests[@]}" || return
    printf 'apart: nats: tests with NATS servers\n' >>"$LOGS/tests.log"
    if [ -n "$dpdk" ]; then printf 'skipped: no tests of DPDK (to build them: install libdpdk-dev and libclang-dev, and set FULL=1)\n' >>"$LOGS/tests.log"; fi
    no_idle_binary "$LOGS/tests.log" "$dpdk" &&
        at_least $(($(tests_in_sources crates "${absent[@]}") - $(tests_in_sources "${NATS_SOURCES[@]}"))) "$(passed "$LOGS"/tests{,-again}.log)" tests
}

# Links, pages and commands of the documentation, and the site that mdBook makes of it.
stage_docs() {
    command -v python3 >/dev/null || { skip 'no python3'; return; }
    logged docs-check-test scripts/docs-check-test && logged quickstart scripts/quickstart-test --list &&
        stage_build --example book && logged book "$BUILT/examples/book" &&
        SCALEBRICKS=$(realpath -m -- "$BUILT/scalebricks") logged docs scripts/docs-check.py --book target/book
}

# The C library, the Python package and the crates' packages, as their users get them. They share the build of `all`.
stage_bindings() {
    local part options status
    : >"$LOGS/bindings.log"
    for part in capi-test python-test package-test; do
        printf -- '-- %s\n' "$part"
        options=(--profile gate)
        [ $part != package-test ] || options=()
        logged "bindings-$part" "scripts/$part" "${options[@]}"
        status=$?
        [ $status = 0 ] || [ $status = $SKIPPED ] || return $status
        # The run's summary lists them.
        grep '^skipped: ' "$LOGS/bindings-$part.log" >>"$LOGS/bindings.log"
    done
    return 0
}

# The NATS engine on three real servers, which the tests also kill.
# shellcheck disable=SC2086 # a list of options
stage_nats() {
    if ! scripts/nats.sh path >/dev/null; then
        [ "${REQUIRE_NATS:-}" = 1 ] || { skip 'no nats-server of 2.15 or newer, and none could be built (install Go 1.21 or newer)'; return; }
        printf 'required, but there is no nats-server\n' >&2
        return 1
    fi
    local servers tests=(cargo test --workspace --locked "${PROFILE[@]}" $FEATURES --test integration)
    stage_build &&
        { REQUIRE_NATS=1 logged nats timeout --kill-after=10 "${NATS_TIMEOUT:-600}" "${tests[@]}" "$NATS_TESTS::" ||
            REQUIRE_NATS=1 once_more nats $? "${tests[@]}"; } || return
    # The servers that the tests' clusters start.
    servers=$(grep -rhoE 'Cluster::start(_with)?\([0-9]+' "${NATS_SOURCES[@]}" | awk -F'[^0-9]+' '{ sum += $NF } END { print sum + 0 }')
    at_least $(($(tests_in_sources "${NATS_SOURCES[@]}") + $(conformance_tests))) "$(passed "$LOGS"/nats{,-again}.log)" tests &&
        at_least "$servers" "$(grep -c '^nats-server s[0-9]* answers' "$LOGS/nats.log")" 'servers that answered'
}

# The dashboard in a real browser, against a lab in which a node is killed.
stage_dashboard() {
    local python=target/dashboard/bin/python what=''
    [[ $FEATURES == */dpdk* ]] || what='no DPDK (on Debian: apt install libdpdk-dev libclang-dev; a single stage: FULL=1)'
    [ "$(id -u)" = 0 ] || what='no right to create network namespaces (run as root)'
    command -v chromium >/dev/null || what='no Chromium (on Debian: apt install chromium)'
    if [ -z "$what" ] && ! "$python" -c 'import playwright, axe_playwright_python' 2>/dev/null; then
        local install="python3 -m venv target/dashboard && target/dashboard/bin/pip install $BROWSER_PACKAGES"
        may_install && building bash -c "$install --quiet" || what="no Playwright (install with: $install)"
    fi
    [ -n "$what" ] || scripts/nats.sh path >/dev/null || what='no nats-server of 2.15 or newer, and none could be built (install Go 1.21 or newer)'
    if [ -n "$what" ]; then
        [ "${REQUIRE_DASHBOARD:-}" = 1 ] || { skip "$what"; return; }
        printf 'required, but %s\n' "$what" >&2
        return 1
    fi
    stage_build &&
        logged dashboard timeout --kill-after=30 "${DASHBOARD_TIMEOUT:-600}" "$python" scripts/dashboard-test --program "$BUILT/scalebricks" --name sbdash || {
            # What its end left behind would take the cores of the labs that follow.
            "$BUILT/scalebricks" lab down --name sbdash
            return 1
        }
    at_least "$(grep -c '^    step(\|^        step(' scripts/dashboard-test)" "$(grep -c '^ok ' "$LOGS/dashboard.log")" steps
}

# Reserves huge pages while a command runs, if permitted and too few are free.
with_huge_pages() {
    local pages=/proc/sys/vm/nr_hugepages before free status
    before=$(cat $pages 2>/dev/null || echo 0)
    free=$(sed -n 's/^HugePages_Free: *//p' /proc/meminfo)
    if [ "${free:-0}" -lt 128 ] && [ -w $pages ]; then echo $((before + 128)) >$pages; fi
    "$@"
    status=$?
    if [ -w $pages ]; then echo "$before" >$pages; fi
    return $status
}

# A cluster over real interfaces, in all architectures.
# shellcheck disable=SC2086 # a list of options
stage_lab() {
    local probe=sb-probe-$$ what=''
    [[ $FEATURES == */dpdk* ]] || what='no DPDK (on Debian: apt install libdpdk-dev libclang-dev; a single stage: FULL=1)'
    if ! command -v ip >/dev/null; then
        what='no ip (on Debian: apt install iproute2)'
    elif ip netns add $probe 2>/dev/null; then ip netns del $probe; else what='no right to create network namespaces (run as root)'; fi
    # A NATS server stores the log of labs with a control plane.
    [ -n "$what" ] || scripts/nats.sh path >/dev/null || what='no nats-server of 2.15 or newer, and none could be built (install Go 1.21 or newer)'
    if [ -n "$what" ]; then
        [ "${REQUIRE_NAMESPACES:-}" = 1 ] || { skip "$what"; return; }
        printf 'required, but %s\n' "$what" >&2
        return 1
    fi
    local options=(--quick) run=(timeout --kill-after=30 "${LAB_TIMEOUT:-1500}" scripts/lab.sh run)
    if may_install; then options+=(--install); fi
    # Faults run separately, because a broken link stays visible in the kernels' counters; there, flows come from the
    # control plane. The outages below are one per guarantee; docs/outages.md has all.
    local outages=control-pair,internet-link,ran-switch,worker-stopped,node-killed,node-drained,log-lost-at-restart,second-death,isolation
    local routers=routing,tunnel,strongswan,cluster,flows
    # This stage checks packets, not rates, so the program built for the tests is sufficient.
    stage_build || return
    local -x SCALEBRICKS=$BUILT/scalebricks
    logged lab "${run[@]}" "${options[@]}" --arch full-duplication,hash-partition,vlb &&
        logged lab-faults "${run[@]}" "${options[@]}" --control --faults &&
        logged lab-outages timeout --kill-after=30 "${LAB_TIMEOUT:-1500}" scripts/lab.sh outages "$outages" &&
        logged lab-router timeout --kill-after=30 "${LAB_TIMEOUT:-1500}" scripts/lab.sh router "$routers" "${options[@]}" || return
    local read_by_tshark='^ok +capture, read by tshark: [1-9][0-9]* frames read, none malformed, [1-9]'
    at_least 3 "$(grep -cE "$read_by_tshark" "$LOGS/lab.log")" 'architectures whose packets tshark read' &&
        at_least 1 "$(grep -cE "$read_by_tshark" "$LOGS/lab-faults.log")" 'clusters with a control plane whose packets tshark read' &&
        at_least "$(tr , '\n' <<<"${outages//,isolation/}" | wc -l)" "$(grep -cE '^ok +[^ ].*: ' "$LOGS/lab-outages.log")" outages &&
        at_least 1 "$(grep -c 'a node dies: lost between living nodes' "$LOGS/lab-outages.log")" 'architectures whose isolation was checked' &&
        at_least "$(tr , '\n' <<<"$routers" | wc -l)" "$(grep -cE "^(${routers//,/|}) \([0-9]+ s\)$" "$LOGS/lab-router.log")" 'scenarios of the router' &&
        at_least 100 "$(grep -cE '^ok +[^ ].*: ' "$LOGS/lab-router.log")" 'checks of the router'
}

# Unit tests of the crates that differ from origin/main, or from the last commit if there is none; also uncommitted ones.
stage_changed() {
    local base crate packages=()
    base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD)
    mapfile -t crates < <({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | sed -n 's|^crates/\([^/]*\)/.*|\1|p' | sort -u)
    for crate in "${crates[@]}"; do
        [ -e "crates/$crate/Cargo.toml" ] && packages+=(-p "$(sed -n 's/^name = "\(.*\)"/\1/p' "crates/$crate/Cargo.toml" | head -n 1)")
    done
    if [ ${#packages[@]} = 0 ]; then echo 'no crate has changed'; return; fi
    printf 'changed: %s\n' "${crates[*]}"
    logged changed cargo test --locked "${packages[@]}" --lib --bins
}

stage_layering() { cargo test --quiet --locked --workspace --test layering; }

# The crates that others build with their own compiler. Public CI checks the whole workspace; in this run, clippy's lint
# incompatible_msrv reports uses of the standard library that are too new.
stage_msrv() {
    have_toolchain "$MSRV" ||
        { skip "no Rust $MSRV (install with: rustup toolchain install $MSRV --profile minimal)"; return; }
    CARGO_TARGET_DIR=target/msrv cargo "+$MSRV" check --locked -p scalebricks-types -p scalebricks-tables -p scalebricks-capi
}

stage_aarch64() {
    local target=aarch64-unknown-linux-gnu
    if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
        # Inside the repository, rustup adds the target to the pinned toolchain.
        { command -v rustup >/dev/null && may_install && rustup target add $target; } ||
            { skip "no standard library for $target (install with: rustup target add $target)"; return; }
    fi
    # ring contains C.
    command -v aarch64-linux-gnu-gcc >/dev/null ||
        { skip 'no C compiler for aarch64 (on Debian: apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross)'; return; }
    # shellcheck disable=SC2086 # a list of options
    cargo check --locked --target $target "${CHECKS[@]}" $PORTABLE
}

stage_deny() {
    cargo deny --version >/dev/null 2>&1 ||
        { skip 'no cargo-deny (install with: cargo install --locked cargo-deny)'; return; }
    # Advisories need the network and change without commits of ours: public CI checks them in a separate job.
    cargo deny --offline check bans licenses sources
}

stage_loom() {
    local crate packages=()
    for crate in crates/*; do
        grep -rqE 'fn loom_' "$crate/src" && packages+=(-p "$(sed -n 's/^name = "\(.*\)"/\1/p' "$crate/Cargo.toml" | head -n 1)")
    done
    [ ${#packages[@]} -gt 0 ] || { printf 'no test is named loom_*\n' >&2; return 1; }
    # Loom prints how many interleavings it tried. With only one, the threads of a test never interacted.
    RUSTFLAGS="${RUSTFLAGS:-} --cfg loom" LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3} CARGO_TARGET_DIR=target/loom LOOM_LOG=loom::model=info \
        logged loom cargo test --locked "${packages[@]}" --lib loom_ -- --nocapture || return
    # Models that set their own bounds do not print it.
    local telling
    telling=$(grep -rlE 'fn loom_' crates/*/src | xargs grep -L 'model::Builder' | xargs grep -hoE 'fn loom_\w+' | wc -l)
    at_least "$(grep -rhoE 'fn loom_\w+' crates/*/src | wc -l)" "$(passed "$LOGS/loom.log")" tests &&
        at_least "$telling" "$(grep -cE 'Completed in ([2-9]|[0-9]{2,}) iterations' "$LOGS/loom.log")" 'models of more than one interleaving'
}

stage_miri() {
    local nightly=$NIGHTLY
    if ! have_toolchain "$nightly" miri rust-src; then
        nightly=nightly
        rustup run nightly cargo miri --version >/dev/null 2>&1 || {
            skip "no Miri (install with: rustup toolchain install $NIGHTLY --profile minimal --component miri,rust-src)"
            return
        }
    fi
    # Isolation is off because proptest reads its working directory. Leaks are ignored because rayon's pool outlives
    # main; tree borrows, because its epoch collector violates stacked borrows. Other crates have no unsafe code that
    # Miri could run.
    export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-tree-borrows -Zmiri-permissive-provenance}"
    local miri=(env "PROPTEST_CASES=${MIRI_PROPTEST_CASES:-1}" CARGO_TARGET_DIR=target/miri
        timeout "${MIRI_TIMEOUT:-1800}" cargo "+$nightly" miri test --locked -p scalebricks-tables --lib)
    "${miri[@]}" --no-run &&
        "${miri[@]}" --quiet -- --list --format terse >"$LOGS/miri.all" &&
        "${miri[@]}" --quiet -- --list --format terse --ignored >"$LOGS/miri.ignored" || return
    # Miri has one thread, and its tests take from 0.1 s to a minute: a core that is done takes the next four.
    local all tests=() index share=${MIRI_SHARE:-0/1} status=0
    rm -f "$LOGS"/miri.log "$LOGS"/miri-*.log
    mapfile -t all < <(sort -u "$LOGS/miri.all" | comm -23 - <(sort -u "$LOGS/miri.ignored") | sed -n 's/: test$//p')
    for ((index = ${share%/*}; index < ${#all[@]}; index += ${share#*/})); do tests+=("${all[index]}"); done
    if [ ${#tests[@]} -lt ${#all[@]} ]; then
        printf 'skipped: tests outside part %s: %d of %d (MIRI_SHARE)\n' "$share" $((${#all[@]} - ${#tests[@]})) ${#all[@]} | tee "$LOGS/miri.log"
    fi
    # shellcheck disable=SC2016 # expanded by the inner shell
    printf '%s\n' "${tests[@]}" | xargs -d '\n' -n 4 -P "$(nproc)" bash -c 'at=$1 && shift && exec "$@" >"$at-$$.log" 2>&1' \
        miri "$LOGS/miri" "${miri[@]}" -- -Zunstable-options --report-time --exact || status=1
    grep -hE '^test .* (ok|FAILED|\.\.\. $)|panicked at|^error|Undefined Behavior' "$LOGS"/miri-*.log
    [ $status = 0 ] && at_least "${#tests[@]}" "$(passed "$LOGS"/miri-*.log)" tests
}

# Readers beside a writer again, with the AVX2 kernels, whose instructions Miri supports.
stage_miri_avx2() {
    [ "$(uname -m)" = x86_64 ] || { skip 'no AVX2 on this processor'; return; }
    have_toolchain "$NIGHTLY" miri rust-src || {
        skip "no Miri (install with: rustup toolchain install $NIGHTLY --profile minimal --component miri,rust-src)"
        return
    }
    export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-tree-borrows -Zmiri-permissive-provenance}"
    logged miri_avx2 env "RUSTFLAGS=-Ctarget-feature=+avx2,+bmi1,+bmi2,+popcnt" CARGO_TARGET_DIR=target/miri-avx2 timeout "${MIRI_TIMEOUT:-1800}" \
        cargo "+$NIGHTLY" miri test --locked -p scalebricks-tables --lib -- --nocapture --skip full_copy a_reader_beside_a_writer || return
    local table
    for table in setsep othello lpm; do
        grep -q "beside readers: $table tiny on avx2\$" "$LOGS/miri_avx2.log" ||
            { printf 'no reader of %s used AVX2\n' "$table" >&2; return 1; }
    done
}

# The instruction levels of the tables' kernels that this processor supports, as the tests name them.
levels() {
    local flags
    flags=$(grep -m 1 '^flags' /proc/cpuinfo)
    printf 'portable\n'
    [[ $flags =~ \ avx2\  ]] && printf 'avx2\n'
    [[ $flags =~ \ avx512vl\  ]] && printf 'avx512\n'
    [[ $flags =~ \ gfni\  && $flags =~ \ avx512_vpopcntdq\  ]] && printf 'avx512-gfni\n'
}

# Stress tests of the tables under ThreadSanitizer at each instruction level. It must also find the planted races of
# readers that do not pin what they read. Limits: docs/adr/0035-what-tools-checked.md.
stage_tsan() {
    have_toolchain "$NIGHTLY" rust-src || {
        skip "no sources of the standard library (install with: rustup toolchain install $NIGHTLY --profile minimal --component rust-src)"
        return
    }
    # Low optimisation, because ThreadSanitizer does not watch wide loads that the optimiser makes of narrow ones.
    local tsan=(env "RUSTFLAGS=-Zsanitizer=thread --cfg tsan" CARGO_TARGET_DIR=target/tsan CARGO_PROFILE_TEST_OPT_LEVEL=1
        timeout "${TSAN_TIMEOUT:-1800}" cargo "+$NIGHTLY" test --locked -Zbuild-std --target "$(rustc -vV | sed -n 's/^host: //p')"
        -p scalebricks-tables --lib)
    "${tsan[@]}" --no-run && logged tsan "${tsan[@]}" -- --nocapture --skip planted_race stress turnover || return
    local level table runs failed=0
    for level in $(levels); do
        runs=$(grep -c "beside readers: .* on $level\$" "$LOGS/tsan.log")
        printf 'tsan: %s: %d stress runs\n' "$level" "$runs"
        [ "$runs" -ge 20 ] || { printf 'FAILED: too few runs of readers on %s\n' "$level"; failed=1; }
    done
    for table in reclaim cuckoo lpm; do
        grep -q "beside readers: $table" "$LOGS/tsan.log" || { printf 'FAILED: no run of %s\n' "$table"; failed=1; }
    done
    for level in $(levels); do
        # The portable form of SetSep uses atomic loads, which cannot race.
        [ "$level" = portable ] || planted_race setsep::tests::stress "$level" || failed=1
        planted_race othello::tests::stress "$level" || failed=1
    done
    planted_race reclaim::stress_tests portable || failed=1
    return $failed
}

# Whether ThreadSanitizer finds the planted race of a module. Uses the command of stage_tsan.
planted_race() {
    local test=$1::planted_race_of_readers_without_a_pin log=$LOGS/tsan-planted-${1%%:*}-$2.log
    TSAN_OPTIONS=halt_on_error=1 PLANTED_ISA=$2 "${tsan[@]}" -- --nocapture --exact "$test" >"$log" 2>&1
    if grep -q 'WARNING: ThreadSanitizer: data race' "$log"; then
        printf 'tsan: %s on %s: the planted race was found\n' "${1%%:*}" "$2"
    else
        printf 'FAILED: %s on %s: the planted race was not found; log: %s\n' "${1%%:*}" "$2" "$log"
        return 1
    fi
}

stage_fuzz() {
    have_toolchain "$NIGHTLY" || { skip "no Rust $NIGHTLY (install with: rustup toolchain install $NIGHTLY --profile minimal)"; return; }
    logged fuzz scripts/fuzz.sh "${FUZZ_SECONDS:-6}" || return
    at_least "$(find fuzz/fuzz_targets -name '*.rs' | wc -l)" "$(grep -cE '^fuzz: \w+: ok' "$LOGS/fuzz.log")" targets
}

# shellcheck disable=SC2086 # a list of options
stage_packets() {
    stage_build && building cargo build --workspace --locked "${PROFILE[@]}" $FEATURES --example sample_capture --example local_capture &&
        SCALEBRICKS=$BUILT/scalebricks EXAMPLES=$BUILT/examples logged packets scripts/check-pcap.sh
}

# Every test SOAK_RUNS times, each time with another seed, which the property tests get so that a run can be repeated.
stage_soak() {
    local run seed
    building cargo test --workspace --locked --no-run || return
    for ((run = 1; run <= ${SOAK_RUNS:-20}; run++)); do
        seed=$(od -An -N6 -tu8 /dev/urandom | tr -d ' ')
        printf '\n== run %d of %d: PROPTEST_RNG_SEED=%s\n' "$run" "${SOAK_RUNS:-20}" "$seed"
        logged soak env "PROPTEST_RNG_SEED=$seed" cargo test --workspace --locked --no-fail-fast --lib --bins --tests -- --skip "$NATS_TESTS::" ||
            { printf 'run %d failed; repeat it with: PROPTEST_RNG_SEED=%s scripts/test.sh tests\n' "$run" "$seed"; return 1; }
    done
}

FEATURES=''
PROFILE=(--profile test)
CHECKS=()
TARGET=${CARGO_TARGET_DIR:-target}
BUILT=$TARGET/debug
# More than one thread per core, because many tests wait.
THREADS=$((2 * $(nproc)))
if [ "${1:-all}" = all ] || [ "${FULL:-}" = 1 ]; then full_build; fi
beside=''
case "${1:-all}" in
all)
    stages=$ALL
    rm -f "$LOGS"/*.log "$LOGS"/*.output "$LOGS/stages" "$LOGS"/*.result
    beside=$BESIDE
    ;;
quick) stages=$QUICK ;;
test) stages=$TEST ;;
*) stages=$* ;;
esac

# Whether scripts/may-skip lists this stage, or the beginning of this message of a part of it.
may_skip() {
    local stage=$1 says=$2 entry
    case " ${MAY_SKIP:-} " in *" $stage "*) return 0 ;; esac
    while IFS= read -r entry; do
        [ "$entry" = "$stage" ] && return 0
        case "$stage: $says" in "$entry"*) [ "$entry" != "${entry#*: }" ] && return 0 ;; esac
    done < <(sed -n 's/^\([^#][^|]*[^ |]\) *|.*/\1/p' scripts/may-skip)
    return 1
}

# Records what a stage skipped; fails if that is not allowed.
judge_skip() {
    local stage=$1 says=$2 verdict='not required here' status=0
    if may_skip "$stage" "$says"; then
        verdict='scripts/may-skip allows it'
    elif [ "${REQUIRE_STAGES:-}" = 1 ]; then
        verdict='scripts/may-skip does not list it' status=1
    fi
    notes+=("$(printf '%-9s skipped: %s (%s)' "$stage" "$says" "$verdict")")
    return $status
}

# Fails if a stage left tests to another stage that this run does not include, unless that one may be skipped.
judge_apart() {
    local from=$1 to=$2 what=$3
    if [ -n "${outcomes[$to]:-}" ]; then
        notes+=("$(printf '%-9s leaves to %s: %s (%s)' "$from" "$to" "$what" "${outcomes[$to]}")")
    else
        judge_skip "$to" "not part of this run, but $from leaves tests to it: $what"
    fi
}

summary=()
notes=()
apart=()
declare -A outcomes=()
ran=0
failed=0
failed_stages=''
skipped=0
# The seconds of each stage, for the closing line.
took=''

# Runs a stage. Sets `outcome` and `line`, and adds to `notes` and `apart`.
run_stage() {
    local stage=$1 began=$SECONDS status
    built=0
    why=''
    : >"$LOGS/$stage-again.log"
    # Not a pipe, because the stage sets variables.
    "stage_$stage" > >(tee "$LOGS/$stage.output") 2>&1
    status=$?
    wait $!
    case $status in
    0)
        outcome=ok
        # A test that cannot run here prints it to standard error directly, because the runner captures tests' output.
        if [ -e "$LOGS/$stage.log" ]; then
            while IFS= read -r line; do
                judge_skip "$stage" "${line#skipped: }" || outcome=FAILED
            done < <(grep -h '^skipped: ' "$LOGS/$stage.log" | sort -u)
            # `apart: STAGE: WHAT` names tests that another stage runs.
            while IFS= read -r line; do apart+=("$stage: ${line#apart: }"); done < <(grep -h '^apart: ' "$LOGS/$stage.log" | sort -u)
        fi
        ;;
    "$SKIPPED")
        outcome=skipped
        judge_skip "$stage" "${why:-see above}" || outcome=FAILED
        ;;
    *) outcome=FAILED ;;
    esac
    line=$(printf '%-9s %-8s %4d s' "$stage" "$outcome" $((SECONDS - began)))
    if [ $built -gt 0 ]; then line+=$(printf ', of which %d s to build' $built); fi
}

# Starts the stages of $beside at low priority; their results and notes go to files. In the same session, so that the
# kernel's automatic groups do not undo the priority.
start_beside() {
    set -m
    (
        renice -n 19 $BASHPID >/dev/null
        for stage in $beside; do
            printf '\n== %s\n' "$stage"
            notes=()
            run_stage "$stage"
            { printf '%s\n' "$outcome" "$line"; [ ${#notes[@]} = 0 ] || printf '%s\n' "${notes[@]}"; } >"$LOGS/$stage.part"
            mv "$LOGS/$stage.part" "$LOGS/$stage.result"
            [ $outcome != FAILED ] || [ "${KEEP_GOING:-}" = 1 ] || break
        done
    ) >"$LOGS/beside.log" 2>&1 &
    child=$!
    set +m
}

# Waits for the stages that run beside others, and takes over the result of one.
take_over() {
    local stage=$1 result
    if [ -n "$child" ]; then
        wait "$child"
        child=''
        cat "$LOGS/beside.log"
    fi
    outcome=FAILED line="$stage did not run"
    [ -e "$LOGS/$stage.result" ] || return
    mapfile -t result <"$LOGS/$stage.result"
    outcome=${result[0]} line="${result[1]}, beside others"
    notes+=("${result[@]:2}")
}

# Prints what failed in a stage: tests, panics, errors and findings.
failures() {
    local what='^test .* FAILED|^(FAILED|error)|panicked at|CRASHED|TOO FEW RUNS|NOT FOUND|^executed: |^required, but|^Diff in'
    printf '== failed: %s\n' "$1"
    grep -hE "$what" "$LOGS/$1.output" | cut -c1-300 | head -n 25
}

child=''
trap 'if [ -n "$child" ]; then kill -- -"$child" 2>/dev/null; fi' EXIT
trap 'exit 130' INT TERM
for stage in $stages; do
    if ! declare -F "stage_$stage" >/dev/null; then
        printf 'unknown stage %s; stages: %s\n' "$stage" "$ALL build changed layering soak" >&2
        exit 2
    fi
    if [ -n "$beside" ] && [ "$stage" = tests ]; then start_beside; fi
    case " $beside " in
    *" $stage "*) take_over "$stage" ;;
    *)
        printf '\n== %s\n' "$stage"
        run_stage "$stage"
        ;;
    esac
    case $outcome in
    ok) ran=$((ran + 1)) ;;
    skipped) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) failed_stages+=" $stage" ;;
    esac
    outcomes[$stage]=$outcome
    summary+=("$line")
    read -r _ _ seconds _ <<<"$line"
    took+="${took:+, }$stage $seconds"
    [ $failed = 0 ] || [ "${KEEP_GOING:-}" = 1 ] || break
done
if [ $failed = 0 ]; then
    for line in "${apart[@]}"; do
        IFS=: read -r from to what <<<"$line"
        judge_apart "$from" "${to# }" "${what# }" || failed=1
    done
fi

printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
printf '%-18s %4d s\n' total "$SECONDS"
[ ${#notes[@]} = 0 ] || printf '%s\n' "${notes[@]}"
for stage in $failed_stages; do failures "$stage"; done
printf 'stages: %d passed, %d failed, %d skipped in %d s (%s)\n' $ran $failed $skipped "$SECONDS" "$took" | tee "$LOGS/stages"
exit $((failed > 0))
