#!/usr/bin/env bash
# Runs fuzz targets under AddressSanitizer: scripts/fuzz.sh [SECONDS_PER_TARGET] [TARGET...]
#
# Needs a C++ compiler and the nightly Rust that scripts/test.sh names, because only a nightly has sanitizers; does not
# need cargo-fuzz. If one is missing, prints a message and exits with 77. Prints one line per target. Exits with 1 if a
# target crashed, ran too few inputs, or was built without coverage, or if the planted overflow was not found. Keeps new
# inputs in fuzz/corpus (not committed).
# A target has one thread: FUZZ_JOBS targets run at a time (default: number of cores).
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-20}
shift || true
if ! command -v "${CXX:-c++}" >/dev/null && ! command -v g++ >/dev/null && ! command -v clang++ >/dev/null; then
    echo "skipped: no C++ compiler (on Debian: apt install g++)"
    exit 77
fi
if ! command -v "${CXX:-c++}" >/dev/null; then
    CXX=$(command -v g++ || command -v clang++)
    export CXX
fi
nightly=$(sed -n 's/^NIGHTLY=//p' scripts/test.sh)
if ! rustup run "$nightly" rustc --version >/dev/null 2>&1; then
    echo "skipped: no Rust $nightly (install with: rustup toolchain install $nightly --profile minimal)"
    exit 77
fi

# The flags of cargo-fuzz. An explicit target keeps them from build scripts and macros. The standard library is the
# prebuilt one: its own accesses are not checked, but its allocator and its generic code, which is built here, are.
host=$(rustc -vV | sed -n 's/^host: //p')
flags="--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
CARGO_TARGET_DIR=fuzz/target/asan RUSTFLAGS=$flags cargo "+$nightly" build --quiet --release --locked \
    --manifest-path fuzz/Cargo.toml --target "$host" --bins
binaries=fuzz/target/asan/$host/release

# Whether coverage leads to the planted read past the input, and AddressSanitizer reports it.
finds_planted_overflow() {
    local artifacts=fuzz/artifacts/planted_overflow
    mkdir -p "$artifacts"
    "$binaries/planted_overflow" -seed=1 -runs=1000000 -max_len=64 -artifact_prefix="$artifacts/" >"$artifacts.log" 2>&1 || true
    if grep -q 'ERROR: AddressSanitizer: heap-buffer-overflow' "$artifacts.log"; then
        echo "fuzz: the planted overflow was found"
    else
        echo "fuzz: THE PLANTED OVERFLOW WAS NOT FOUND; log: $artifacts.log"
        return 1
    fi
}
finds_planted_overflow

# Seeds: bytes NAME HEX writes one small file to the corpus of $target.
bytes() {
    local dir="fuzz/corpus/$target"
    [ -e "$dir/$1" ] || printf '%b' "$(printf '%s' "$2" | sed 's/../\\x&/g')" >"$dir/$1"
}
# text NAME TEXT does the same with text; \n ends a line.
text() {
    local dir="fuzz/corpus/$target"
    [ -e "$dir/$1" ] || printf '%s' "${2//\\n/$'\n'}" >"$dir/$1"
}
udp=00350fa0000d000068656c6c6f
inner=45b80021000700003c1163cf080808080a2d0002$udp
mac=020000000002020000000001
gtpu=34ff002911223344000000850100090045b80021000700003c1163cf080808080a2d0002$udp
v4=45b8004d123440004011a3b0c0000201c00002029c40086800390000$gtpu
v6=6b8543210039114020010db800000000000000000000000120010db80000000000000000000000029c40086800390000$gtpu
v6ext=60000000001d004020010db800000000000000000000000120010db80000000000000000000000022c000104000000001100000000000007$udp
icmp=4500003800000000400100000a2d0002080808080304000000000578$inner
lan=ffffffffffff02000000000b
own6=20010db8000100000000000000000010
router6=20010db8000100000000000000000001
far6=20010db8000100000000000000000099
segment=5342524b534c4f4701000000010000000100000000000000000000000000000000000000
entry=00000100000000000000070000000000000001000000000000""0055
seeds() {
    case $target in
    wire_frame)
        bytes v4 "${mac}0800$v4"
        bytes v6 "${mac}86dd$v6"
        bytes vlan "${mac}88a8000181000002""86dd$v6ext"
        bytes icmp "${mac}0800$icmp"
        bytes arp "${mac}080600010800060400010200000000010a0000010000000000000a000002"
        ;;
    fabric_probe)
        zeros=$(printf '0%.0s' {1..280})
        bytes probe "0001010100$zeros"
        bytes echo "0001020100$zeros"
        bytes untagged "0101010100$zeros"
        ;;
    wire_esp)
        bytes esp "4500003c000040004032b66fc0000201c0000202""000010010000000100000000000000010102030405060708090a0b0c0d0e0f101112131415161718"
        bytes udp "45000044000040004011b688c0000201c000020211941194""00300000""000010010000000100000000000000010102030405060708090a0b0c0d0e0f101112131415161718"
        bytes trailer 0102030304
        bytes inner "$inner"
        text file '[[sa]]\nname = "a"\nspi = 256\nsuite = "aes-128-gcm"\nkey = "00"\nsrc = "192.0.2.1"'
        ;;
    wire_gtpu)
        bytes gpdu "$gtpu"
        bytes echo 3202000600000000010200000e00
        bytes error 321a0010000000000000000010deadbeef850004c0000209
        ;;
    wire_icmp)
        bytes v4 "$inner"
        bytes v6 "$v6ext"
        bytes error "$icmp"
        ;;
    flows)
        # Kind; then operation, delay, packet length, packet: a handshake with data early and in place, a reset.
        local to=c0000201c0000202 from=c0000202c0000201 ends=0050""1f90 sdne=1f90""0050 rest=20000000""0000
        bytes tcp "00""0000""0028""450000280000000040060000$to$ends""0000000100000000""5002$rest""0000""0028""450000280000000040060000$from$sdne""0000000900000002""5012$rest""0000""0028""450000280000000040060000$to$ends""000000020000000a""5010$rest""0000""002c""4500002c0000000040060000$to$ends""000000040000000a""5018${rest}61626364""0000""002a""4500002a0000000040060000$to$ends""000000020000000a""5018${rest}5a5a""0000""0028""450000280000000040060000$from$sdne""0000000a00000008""5014$rest"
        bytes udp "0c""0100""0021""$inner""0100""0038""$icmp"
        bytes fragments "00""0000""001c""4500001c00072000401100000a2d00020a2d0003""0001020304050607""0000""001c""4500001c00070001401100000a2d00020a2d0003""08090a0b0c0d0e0f"
        bytes six "06""0000""0045""$v6ext"
        ;;
    nat44)
        # Kind; then operation, delay, packet length, packet: a handshake from inside and its answer, a ping, fragments.
        local to=c0000201cb007101 from=cb007101c6336400 ends=0051""0050 sdne=0050""0400 rest=20000000""0000
        bytes tcp "08""0100""0028""450000280000000040060000$to$ends""0000000100000000""5002$rest""0d00""0028""450000280000000040060000$from$sdne""0000000900000002""5012$rest""0100""0028""450000280000000040060000$to$ends""000000020000000a""5010$rest"
        bytes udp "01""0100""001c""4500001c0007000040110000$to""0050005000080000""0d00""001c""4500001c0007000040110000$from""0050040000080000"
        bytes ping "14""0100""001c""4500001c0007000040010000$to""0800000000010001"
        bytes fragments "00""0000""001c""4500001c0007200040110000$to""0050005000100000""0000""001c""4500001c0007000140110000$to""08090a0b0c0d0e0f"
        ;;
    firewall)
        # Operation, delay, length, frame or rules: a query and its answer's side, an ICMP error, fragments, rules.
        bytes query "0000""002f${mac}0800$inner""0100""0046${mac}0800$icmp"
        bytes fragments "0000""002a${mac}0800""4500001c00072000401100000a2d00020a2d0003""0001020304050607""0000""002a${mac}0800""4500001c00070001401100000a2d00020a2d0003""08090a0b0c0d0e0f"
        bytes rules "3000""0011""6f75747369646520616c6c6f7720756470""0100""002f${mac}0800$inner""3000""0004""64656e79""0100""002f${mac}0800$inner"
        bytes six "0600""0053${mac}86dd$v6ext"
        ;;
    streams)
        # Operation, delay, length, frame: a connection whose data comes in the wrong order, and fragments.
        local there="${mac}0800""4500002b00000000400600000a0000010a00090900090050"
        local back="${mac}0800""4500002800000000400600000a0009090a00000100500009"
        bytes stream "0100""0036${there/2b/28}""00000064000000005002ffff00000000""0100""0036$back""000001f4000000655012ffff00000000""0100""0036${there/2b/28}""00000065000001f55010ffff00000000""0100""0039$there""00000068000001f55010ffff00000000646566""0100""0039$there""00000065000001f55018ffff00000000616263""0000""0036${there/2b/28}""0000006b000001f55011ffff00000000""3000""0000"
        bytes fragments "0000""002a${mac}0800""4500001c00072000401100000a2d00020a2d0003""0001020304050607""0000""002a${mac}0800""4500001c00070001401100000a2d00020a2d0003""08090a0b0c0d0e0f"
        bytes six "0000""0053${mac}86dd$v6ext"
        ;;
    types_delta)
        bytes empty 01000100070000000200000000000000010000000000000000000000
        bytes one 0100010007000000020000000000000001000000000000000100000055
        ;;
    setsep_delta | setsep_snapshot | othello_delta | othello_snapshot | fib_delta)
        # The target contains a valid sample: these edit it in one place, or replace it.
        bytes edit 00100001
        bytes whole 0300000000000000
        ;;
    control_partition)
        bytes changes 0001000000020000000102050000000000000044332211000000000301020304050607080910111213141516030205000000000000004433221100000000
        bytes edit 02180001
        ;;
    control_routes)
        # Version; an announcement with a path, a restart, a withdrawal.
        bytes batch 0400030000000001000409""0a80010000000a000000""000101c0000201020100010100""0409""0a80
        bytes rib 0400010000000100020000000100000004080a010000000a000000""00010001""0002000000
        ;;
    control_courier)
        # A parcel; then sender, length and packet, one after another.
        local one=0100000000000000 parcel
        parcel="01000200""0700000000000000$one$one""01000000""0d0c0b0a$one$one$one$one"
        bytes parcel "$parcel"
        bytes delivered "0144${parcel}0144${parcel}"
        bytes receipt "010c01000100""0700000000000000""ff1c01000300""0700000000000000$one$one""0144$parcel"
        ;;
    io_capture)
        bytes pcap d4c3b2a1020004000000000000000000ffff0000010000000000000000000000040000000400000041424344
        bytes pcapng 0a0d0d0a1c0000004d3c2b1a01000000ffffffffffffffff1c000000
        ;;
    route_feed)
        text text '192.0.2.0/24 64496\n2001:db8::/32 64497\n'
        # A prefix with one path of one AS, and its next hop.
        bytes mrt 00000000000d00020000002000000000080a0001000000000000001040020602010000fbf0400304c0000201
        ;;
    engine_log)
        # The operation; then edits of a valid log, or a segment's header and a frame's group, with checksums of 0.
        bytes edit 0100001001
        bytes cut 0182010000
        bytes entry "00$segment""534752502400000001000000000000000100000000000000""000000001b00000001""$entry"
        bytes record "00$segment""534752501500000001000000000000000100000000000000""000000000c00000002""010000000000000001016b76"
        bytes torn "00$segment""534752502400000001000000000000000100000000000000""000000001b00000001"
        bytes two "022400$segment""534752502400000001000000000000000100000000000000""000000001b00000001"
        ;;
    gateway_node)
        # Architecture and slow paths; then operation, delay, frame length, frame.
        local kind down="0000""002f${mac}0800$inner" up="0400""005b${mac}0800$v4"
        for kind in 0 1 2 3 4 5 6 7; do bytes both$kind "0$kind$down$up"; done
        bytes moved "03$down""2000""00020201""6000""00020201$down"
        bytes gone "00$down""2000""00020204""6000""00020204""a000""00020204$down"
        bytes found "07$down""0400""002a${lan}0806000108000604000202000000000b0aff00020000000000000aff000a$down"
        ;;
    router_graph)
        # Operation, delay, frame length, frame.
        local sent="0000""002f${mac}0800$inner" asked="0806000108000604000102000000000bc00002070000000000""00c0000201"
        local v6="0000""003a${mac}86dd6000000000041140""20010db8000000010000000000000007""20010db8000000020000000000000007""00010002"
        bytes six "$v6"
        bytes six_and_more "${v6}00"
        bytes asked "0000""0056${mac}86dd6000000000203aff""20010db8000000010000000000000007""ff0200000000000000000001ff000001""87000000""00000000""20010db8000000010000000000000001""010102000000000700"
        bytes routed "$sent""0100""002a${lan}0806000108000604000202000000000bc63364fe020000000110c6336401$sent"
        bytes arp "0200""002a$lan$asked"
        bytes ping "0000""002e${mac}08004500002000000000400100000a090001c00002010800000012340001""68656c6c"
        bytes expired "0000""0022${mac}08004500001400000000011100000a090001c6336407"
        ;;
    router_node)
        # Operation and port, delay, frame length, frame.
        local zeros outside="020000000010020000000001" way="025b4000ffff020000000001"
        zeros=$(printf '0%.0s' {1..280})
        bytes outside "0000""002f${outside}0800$inner"
        bytes arp "0000""002a${lan}0806000108000604000102000000000bc00002070000000000""00c0000201"
        bytes expired "0000""0022${outside}08004500001400000000011100000a090001c6336407"
        bytes six "0000""003a${outside}86dd6000000000041140""20010db8000000010000000000000007""20010db8000000020000000000000007""00010002"
        bytes link "0100""002f${way}0800$inner"
        bytes hello "110a""0090""01010100$zeros""000000"
        ;;
    flat_frame)
        # Kind of names and operation, port, frame length, frame.
        bytes mac "0001""00""002f${mac}0800$inner"
        bytes v4 "0101""00""002f${mac}0800$inner"
        bytes route "4101""00""002f${mac}0800$inner""01""002f${mac}0800$inner"
        bytes v6 "4200""00""0053${mac}86dd$v6ext"
        bytes tuple "4300""00""002f${mac}0800$inner"
        bytes all "0002""02""002a${lan}0806000108000604000102000000000bc63364630000000000""00c633640a"
        bytes label "0600""01""0014${mac}88b505""68656c6c6f"
        ;;
    flat_names)
        # Kind of names, file.
        bytes mac "00""30323a30303a30303a30303a30303a30312c666f7277617264206c6566740a"
        bytes v4 "01""3139322e302e322e312c64726f700a"
        bytes tuple "03""312e312e312e313a353e322e322e322e323a38302f7463702c666c6f6f640a"
        bytes label "06""766964656f2c64726f700a"
        ;;
    click_config)
        # Texts, and the configurations of the tests.
        text chain 'a :: A -> [1] b :: B(1, "x, y", \<48 69>) [2] -> C;'
        text compound 'elementclass E { $a, KEY $b, __REST__ $r | input -> X($a, ${c-$b}, $r) -> output || ... } A -> E(1, KEY 2) -> B'
        text group 'define($x 1) A => ( [0] -> [0]; [1] -> P($x) -> [0] ) -> B; require(package p);'
        text info 'AddressInfo(me 192.0.2.1/24 2:0:0:0:0:1);\n# 5 "f"\nQ(me:eth, 10Mbps, 5ms)'
        for router in crates/click/tests/data/*.click; do
            [ -e "fuzz/corpus/$target/${router##*/}" ] || cp "$router" "fuzz/corpus/$target/"
        done
        ;;
    click_router)
        text forward 'FromDevice(eth0) -> c :: Counter -> Queue(10) -> ToDevice(eth1);'
        text source 'InfiniteSource(LIMIT 5) -> t :: Tee -> Discard; t[1] -> Paint(3) -> p :: PaintSwitch -> Discard; p[1] -> Idle'
        text info 'AddressInfo(e 10.0.0.1/8 2:0:0:0:0:1); ControlSocket(TCP, 7777); RatedSource(\<00 01>, 5) -> Queue -> Unqueue -> Discard'
        for router in examples/*.click; do
            [ -e "fuzz/corpus/$target/${router##*/}" ] || cp "$router" "fuzz/corpus/$target/"
        done
        ;;
    elements_filter)
        # Filters, one per line; a zero; a packet.
        text simple 'src 10.0.0.0/8 and tcp opt syn\nudp port dns or 67\n-'
        text nested '(tcp[13] & 2 != 0 || ip proto 89) ? icmp type echo : not (frag or ip ttl > 9)'
        bytes packet "737263203139322e302e322e31""00$v4"
        bytes udp "64737420706f7274203231353200$v4"
        ;;
    local)
        # Operation, delay, frame length, frame.
        bytes arp "05002a${lan}0806000108000604000102000000000bc63364630000000000""00c633640a"
        bytes arp_reply "45002a${lan}0806000108000604000202000000000bc63364010200000001""01c633640a"
        bytes nd "250056${lan}86dd6000000000203aff$far6$own6""8700000000000000$own6""0101020000000001"
        bytes na "650056${lan}86dd6000000000203aff$router6$own6""8800000060000000$router6""0201020000000001"
        bytes echo "65002e${lan}08004500002000000000400100000a090001c633640a""0800000012340001""68656c6c"
        bytes path "e50036${lan}08004500002800000000401100000a1400050aff0001""9c40086800140000""3201000400000000""12340000"
        bytes tunnel "a00032${lan}08004500002400000000401100000a1400050aff0001""9c40086800100000""30ff0000deadbeef"
        bytes user "21002f${lan}0800$inner"
        bytes hold "020001""4d""0400ff"
        ;;
    *) bytes zeros 0000000000000000 ;;
    esac
}

if [ $# -gt 0 ]; then
    targets=("$@")
else
    mapfile -t targets < <(sed -n 's|^path = "fuzz_targets/\(.*\)\.rs"|\1|p' fuzz/Cargo.toml)
fi
# Whether a target looked for anything: it tried more than what it was given, and saw where that led.
has_looked() {
    local runs=$1 cover=$2 seeds=$3
    [ "${runs:-0}" -ge $((seeds + 500)) ] && [ "${cover:-0}" -gt 1 ]
}

# Fuzzes one target. One whose inputs take long gets up to eight times the time, so that a slow machine tries enough.
fuzz() {
    local target=$1 binary log runs cover artifact seeds time
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
    seeds
    seeds=$(find "fuzz/corpus/$target" -type f | wc -l)
    binary=$binaries/$target
    log=fuzz/artifacts/$target.log
    for time in "$seconds" $((8 * seconds)); do
        # An input of at most 4,096 octets may take 10 s and allocate 256 MiB at once. The process may have 2 GiB: freed
        # memory that AddressSanitizer keeps back (256 MiB) and its map of all memory count as well.
        if ! "$binary" -max_total_time="$time" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=256 -max_len=4096 \
            -print_final_stats=1 -artifact_prefix="fuzz/artifacts/$target/" "fuzz/corpus/$target" >"$log" 2>&1; then
            artifact=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
            echo "fuzz: $target: CRASHED; log: $log; replay: $binary ${artifact:-(no input was kept)}"
            return 1
        fi
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        cover=$(grep -o 'cov: [0-9]*' "$log" | tail -1)
        if has_looked "$runs" "${cover#cov: }" "$seeds"; then
            echo "fuzz: $target: ok, $runs runs in $time s from $seeds inputs, $cover"
            return
        fi
    done
    echo "fuzz: $target: TOO FEW RUNS: ${runs:-none} in $time s from $seeds inputs, ${cover:-cov: 0}; log: $log"
    return 1
}

# Every so many-th target from this one on; all take the same time.
jobs=${FUZZ_JOBS:-$(nproc)}
lane() {
    local at failed=0
    for ((at = $1; at < ${#targets[@]}; at += jobs)); do fuzz "${targets[at]}" || failed=1; done
    return $failed
}
lanes=()
for ((first = 0; first < jobs; first++)); do
    lane $first &
    lanes+=($!)
done
failed=0
for pid in "${lanes[@]}"; do wait "$pid" || failed=1; done
exit $failed
