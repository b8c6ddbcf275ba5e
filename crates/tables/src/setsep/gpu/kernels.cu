// Builds the blocks of a SetSep table on a GPU. docs/gpu-construction.md describes the steps.
//
// The source is compiled for one table. gpu/plan.rs writes the numbers of that table as macros in front of it: BLOCKS,
// BUCKETS, GROUPS, FIELD_BITS and so on. Nothing here depends on the order of threads except the order of keys within
// a block, and no result depends on that: the balance is a function of the sizes of buckets, and a group's bits are a
// function of its set of keys.
//
// Each kernel has a reference in gpu/reference.rs with the same steps. Tests also compile this file as C++ and run it
// with the threads of gpu/host/shim.h.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#if FIELD_BITS == 32
typedef u32 word;
#else
typedef u64 word;
#endif

#define WARP 32
#define WARPS (THREADS / WARP)
#define EVERY_LANE 0xffffffffu
// Counts that a thread adds up in a prefix sum.
#define PER_THREAD (TILE / THREADS)
// Rows of a group that a lane holds: row r is in lane r % 32.
#define LANE_ROWS (FIELD_BITS / WARP)

// Indices of the status words: what is wrong with the input, or all bits set.
#define WRONG_VALUE 0
#define FULL_BLOCK 1

__constant__ u8 OFFSET_OF[16] = { OFFSETS };

// setsep/geometry.rs: bucket_of, and the candidates of a bucket.
__device__ u64 bucket_of(u64 hash) { return __umul64hi(hash, (u64)BLOCKS * BUCKETS); }

__device__ u32 candidate(u32 bucket, u32 choice) {
    return (bucket + OFFSET_OF[bucket / GROUPS * 4 + choice]) % GROUPS;
}

__device__ u64 mix64(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

__device__ u64 first_item(void) { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ u64 all_threads(void) { return (u64)gridDim.x * blockDim.x; }

// ---------------------------------------------------------------------------------------------------- hash_keys

__device__ u64 rotated(u64 x, u32 by) { return x << by | x >> (64 - by); }

__device__ void sip_round(u64 *v) {
    v[0] += v[1];
    v[1] = rotated(v[1], 13) ^ v[0];
    v[0] = rotated(v[0], 32);
    v[2] += v[3];
    v[3] = rotated(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotated(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotated(v[1], 17) ^ v[2];
    v[2] = rotated(v[2], 32);
}

__device__ void sip_compress(u64 *v, u64 m) {
    v[3] ^= m;
    sip_round(v);
    v[0] ^= m;
}

// The hashes of keys of `words` 64-bit words: SipHash-1-3 over their little-endian bytes, as KeyHasher computes it.
// v0 to v3 are the hasher's state.
extern "C" __global__ void hash_keys(const u64 *keys, u32 words, u64 count, u64 v0, u64 v1, u64 v2, u64 v3,
                                     u64 *hashes) {
    for (u64 at = first_item(); at < count; at += all_threads()) {
        u64 v[4] = { v0, v1, v2, v3 };
        for (u32 i = 0; i < words; ++i) {
            sip_compress(v, keys[at * words + i]);
        }
        sip_compress(v, (u64)words * 8 << 56);
        v[2] ^= 0xff;
        sip_round(v);
        sip_round(v);
        sip_round(v);
        hashes[at] = v[0] ^ v[1] ^ v[2] ^ v[3];
    }
}

// ---------------------------------------------------------------------------------------------------- histogram

// Counts the keys of each block. The counter's old value is the key's place among the keys of its block, so that
// `scatter` needs no second atomic operation. A block that is too full wraps its ranks, but then nothing is scattered.
extern "C" __global__ void histogram(const u64 *hashes, const u8 *values, u64 count, u32 *counts, u16 *ranks,
                                     u64 *status) {
    for (u64 at = first_item(); at < count; at += all_threads()) {
        if (values[at] >> VALUE_BITS != 0) {
            atomicMin(&status[WRONG_VALUE], at << 8 | values[at]);
        }
        ranks[at] = (u16)atomicAdd(&counts[bucket_of(hashes[at]) / BUCKETS], 1u);
    }
}

// --------------------------------------------------------------------------------------------------- prefix sum

// Exclusive prefix sums, plus `base`, of up to TILE numbers by one thread block. Returns the sum. `out` may be `in`.
__device__ u32 scan_tile(const u32 *in, u32 *out, u32 count, u32 base, u32 *sums) {
    u32 own[PER_THREAD], sum = 0, first = threadIdx.x * PER_THREAD;
    for (u32 i = 0; i < PER_THREAD; ++i) {
        own[i] = first + i < count ? in[first + i] : 0;
        sum += own[i];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (u32 step = 1; step < THREADS; step *= 2) {
        u32 before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
        __syncthreads();
    }
    u32 start = base + sums[threadIdx.x] - sum, total = sums[THREADS - 1];
    for (u32 i = 0; i < PER_THREAD && first + i < count; ++i) {
        out[first + i] = start;
        start += own[i];
    }
    __syncthreads(); // all have read `sums`
    return total;
}

__device__ u32 tile_length(u32 tile, u32 all) { return all - tile * TILE < TILE ? all - tile * TILE : TILE; }

// The first key of each block, counted from the first key of the block's tile; and the keys of each tile.
extern "C" __global__ void scan_tiles(const u32 *counts, u32 *starts, u32 *totals, u64 *status) {
    __shared__ u32 sums[THREADS];
    u32 tile = blockIdx.x, from = tile * TILE, length = tile_length(tile, BLOCKS);
    for (u32 i = threadIdx.x; i < length; i += THREADS) {
        if (counts[from + i] > BLOCK_CAPACITY) {
            atomicMin(&status[FULL_BLOCK], (u64)(from + i) << 32 | counts[from + i]);
        }
    }
    u32 total = scan_tile(counts + from, starts + from, length, 0, sums);
    if (threadIdx.x == 0) {
        totals[tile] = total;
    }
}

// The first key of each tile, in place. One thread block.
extern "C" __global__ void scan_totals(u32 *totals) {
    __shared__ u32 sums[THREADS];
    u32 tiles = (BLOCKS + TILE - 1) / TILE, base = 0;
    for (u32 chunk = 0; chunk * TILE < tiles; ++chunk) {
        u32 *part = totals + chunk * TILE;
        base += scan_tile(part, part, tile_length(chunk, tiles), base, sums);
    }
}

__device__ u64 start_of(const u32 *starts, const u32 *totals, u64 block) {
    return (u64)starts[block] + totals[block / TILE];
}

// ------------------------------------------------------------------------------------------------------ scatter

// Moves every key and its value to the keys of its block.
extern "C" __global__ void scatter(const u64 *hashes, const u8 *values, const u16 *ranks, u64 count,
                                   const u32 *starts, const u32 *totals, u64 *out_hashes, u8 *out_values) {
    for (u64 at = first_item(); at < count; at += all_threads()) {
        u64 hash = hashes[at];
        u64 to = start_of(starts, totals, bucket_of(hash) / BUCKETS) + ranks[at];
        out_hashes[to] = hash;
        out_values[to] = values[at];
    }
}

// ------------------------------------------------------------------------------------------------- build_blocks

// The shared memory of a thread block that builds one block of the table.
struct Scratch {
    u64 scores[RUNS];
    u32 sizes[BUCKETS];      // keys of each bucket
    u32 loads[GROUPS];       // keys of each group
    u32 placed[GROUPS];      // how many of them are in `members`
    u32 firsts[GROUPS];      // index in `members` of each group's first key
    u32 marked[2];           // one bit for each group without a solution
    u32 filled;              // buckets that have keys
    u16 cells[GROUPS][RUNS]; // load and noise of each group in each attempt
    u16 members[BLOCK_CAPACITY]; // indices of the block's keys, group after group
    u8 order[BUCKETS];       // buckets with keys, largest first
    u8 choices[BUCKETS][RUNS];
    u8 groups[BUCKETS];      // the group of each bucket
};

// Counts the keys of the block's buckets. One thread a key.
__device__ void count_buckets(Scratch *s, const u64 *hashes, u32 keys) {
    for (u32 at = threadIdx.x; at < BUCKETS; at += THREADS) {
        s->sizes[at] = 0;
    }
    __syncthreads();
    for (u32 at = threadIdx.x; at < keys; at += THREADS) {
        atomicAdd(&s->sizes[bucket_of(hashes[at]) % BUCKETS], 1u);
    }
    __syncthreads();
}

// Sorts the buckets by size, descending, then by number; sizes of SIZES - 1 and more are equal. One thread a bucket:
// its place is the number of buckets that come before it.
__device__ void sort_buckets(Scratch *s) {
    for (u32 bucket = threadIdx.x; bucket < BUCKETS; bucket += THREADS) {
        u32 own = s->sizes[bucket] < SIZES - 1 ? s->sizes[bucket] : SIZES - 1;
        u32 place = 0, filled = 0;
        for (u32 other = 0; other < BUCKETS; ++other) {
            u32 size = s->sizes[other] < SIZES - 1 ? s->sizes[other] : SIZES - 1;
            place += size > own || (size == own && other < bucket);
            filled += size > 0;
        }
        if (own > 0) {
            s->order[place] = (u8)bucket;
        }
        if (bucket == 0) {
            s->filled = filled;
        }
    }
    for (u32 at = threadIdx.x; at < GROUPS * RUNS; at += THREADS) {
        s->cells[at / RUNS][at % RUNS] = (u16)((mix64(at + 1) & 3) * 4);
    }
    __syncthreads();
}

// All attempts to balance the block, one thread an attempt, and the score of each. setsep/kernels/balance.rs is the
// definition.
__device__ void attempt(Scratch *s, u32 keys) {
    u32 run = threadIdx.x;
    if (run < RUNS) {
        for (u32 i = 0; i < s->filled; ++i) {
            u32 bucket = s->order[i], least = ~0u;
            for (u32 choice = 0; choice < 4; ++choice) {
                u32 bid = s->cells[candidate(bucket, choice)][run] | choice;
                least = bid < least ? bid : least;
            }
            s->choices[bucket][run] = (u8)(least & 3);
            s->cells[candidate(bucket, least & 3)][run] += (u16)(s->sizes[bucket] << LOAD_SHIFT);
        }
        u32 mean = (keys + GROUPS - 1) / GROUPS, most = 0, spread = 0;
        for (u32 group = 0; group < GROUPS; ++group) {
            u32 load = s->cells[group][run] >> LOAD_SHIFT;
            u32 distance = load > mean ? load - mean : mean - load;
            distance = distance < FARTHEST ? distance : FARTHEST;
            most = load > most ? load : most;
            spread += distance * distance;
        }
        s->scores[run] = (u64)most << 32 | spread << 16 | run;
    }
    __syncthreads();
}

// Takes the best attempt: the group of each bucket, and the load of each group.
__device__ void choose(Scratch *s) {
    u32 best = 0;
    for (u32 run = 1; run < RUNS; ++run) {
        best = s->scores[run] < s->scores[best] ? run : best;
    }
    for (u32 group = threadIdx.x; group < GROUPS; group += THREADS) {
        s->loads[group] = 0;
        s->placed[group] = 0;
    }
    __syncthreads();
    for (u32 bucket = threadIdx.x; bucket < BUCKETS; bucket += THREADS) {
        u32 group = candidate(bucket, s->sizes[bucket] > 0 ? s->choices[bucket][best] : 0);
        s->groups[bucket] = (u8)group;
        atomicAdd(&s->loads[group], s->sizes[bucket]);
    }
    __syncthreads();
}

__device__ u32 larger(u32 a, u32 b) { return a > b ? a : b; }

// Of the buckets that have this group as a candidate, the one in quarter i / 4 that has it as candidate i % 4.
__device__ u32 member(u32 group, u32 i) { return i / 4 * GROUPS + (group - OFFSET_OF[i]) % GROUPS; }

__device__ bool is_member(const Scratch *s, u32 bucket, u32 group) {
    return s->groups[bucket] == group && s->sizes[bucket] > 0;
}

// One or two moves of buckets, as a number. Of two, the lower one is better: the highest load, then buckets and choices.
#define NO_MOVES ~0ull
#define IS_TWO 1
__device__ u64 moves_of(u32 highest, u32 bucket, u32 to) { return (u64)highest << 40 | (u64)bucket << 32 | to << 24; }

// The best moves after which a group and every group they touch hold at most `target` keys: one move, or else two.
// setsep/balance.rs: relieve.
__device__ u64 relief(const Scratch *s, u32 group, u32 target) {
    u64 one = NO_MOVES, two = NO_MOVES;
    for (u32 i = 0; i < 16; ++i) {
        u32 bucket = member(group, i), rest = s->loads[group] - s->sizes[bucket];
        for (u32 to = 0; to < 4 && is_member(s, bucket, group); ++to) {
            u32 place = candidate(bucket, to), crowded = s->loads[place] + s->sizes[bucket];
            if (place == group) {
                continue;
            }
            u64 moves = moves_of(larger(rest, crowded), bucket, to);
            one = larger(rest, crowded) <= target && moves < one ? moves : one;
            for (u32 j = 0; j < 16 && one == NO_MOVES; ++j) {
                u32 second = member(place, j), moved = s->sizes[second];
                for (u32 onward = 0; onward < 4 && is_member(s, second, place); ++onward) {
                    u32 end = candidate(second, onward);
                    if (end == place) {
                        continue;
                    }
                    // In a swap, the second bucket moves to the group that the first one left.
                    u32 left = end == group ? rest + moved : larger(rest, s->loads[end] + moved);
                    u32 highest = larger(left, crowded - moved);
                    moves = moves_of(highest, bucket, to) | second << 16 | onward << 8 | IS_TWO;
                    two = highest <= target && moves < two ? moves : two;
                }
            }
        }
    }
    return one != NO_MOVES ? one : two;
}

__device__ void move_bucket(Scratch *s, u32 bucket, u32 to) {
    s->loads[s->groups[bucket]] -= s->sizes[bucket];
    s->groups[bucket] = (u8)candidate(bucket, to);
    s->loads[s->groups[bucket]] += s->sizes[bucket];
}

// Relieves groups that are too full. One thread, because each move depends on those before. setsep/balance.rs: settle.
__device__ void settle(Scratch *s, u32 keys) {
    u32 target = larger(TARGET_LOAD, (keys + GROUPS - 1) / GROUPS + 1);
    bool moved = threadIdx.x == 0;
    for (u32 round = 0; round < ROUNDS && moved; ++round) {
        moved = false;
        for (u32 group = 0; group < GROUPS; ++group) {
            u32 load = s->loads[group];
            if (load <= target + TOLERANCE) {
                continue;
            }
            u64 moves = relief(s, group, target);
            moves = moves == NO_MOVES ? relief(s, group, target + TOLERANCE) : moves;
            moves = moves == NO_MOVES ? relief(s, group, load - 1) : moves;
            if (moves == NO_MOVES) {
                continue;
            }
            moved = true;
            move_bucket(s, moves >> 32 & 0xff, moves >> 24 & 0xff);
            if (moves & IS_TWO) {
                move_bucket(s, moves >> 16 & 0xff, moves >> 8 & 0xff);
            }
        }
    }
    __syncthreads();
}

// Writes the choices' words, and takes the index of each group's first key.
__device__ void write_choices(Scratch *s, u64 *words) {
    for (u32 at = threadIdx.x; at < CHOICE_WORDS; at += THREADS) {
        u64 choices = 0;
        for (u32 i = 0; i < 32; ++i) {
            u32 bucket = at * 32 + i, choice = 0;
            while (candidate(bucket, choice) != s->groups[bucket]) {
                ++choice;
            }
            choices |= (u64)choice << (2 * i);
        }
        words[at] = choices;
    }
    for (u32 group = threadIdx.x; group < GROUPS; group += THREADS) {
        u32 first = 0;
        for (u32 other = 0; other < group; ++other) {
            first += s->loads[other];
        }
        s->firsts[group] = first;
    }
    if (threadIdx.x < 2) {
        s->marked[threadIdx.x] = 0;
    }
    __syncthreads();
}

// Lists the keys of each group. One thread a key.
__device__ void place(Scratch *s, const u64 *hashes, u32 keys) {
    for (u32 at = threadIdx.x; at < keys; at += THREADS) {
        u32 group = s->groups[bucket_of(hashes[at]) % BUCKETS];
        s->members[s->firsts[group] + atomicAdd(&s->placed[group], 1u)] = (u16)at;
    }
    __syncthreads();
}

// setsep/linear.rs: the row of a key under a seed.
__device__ word row_of(u64 hash, u32 seed) {
    word x = (word)(hash ^ ROW_KEY) * (word)(MULTIPLIER + (word)seed * SEED_STEP);
    x = (x ^ x >> (FIELD_BITS == 32 ? 15 : 32)) * FINAL;
    return x >> (FIELD_BITS - COLUMNS);
}

__device__ word lowest(word row) { return row & (0 - row); }

// Gauss-Jordan elimination by one warp; row r is in lane r % 32. Returns whether there is a solution, the same in every
// lane. All lanes take the same branches, except to add a row or not.
__device__ bool eliminate(word *rows, u32 *values, u32 load) {
    u32 lane = threadIdx.x % WARP;
    for (u32 at = 0; at < load; ++at) {
        bool low = at < WARP; // no index that varies, so that the rows stay in registers
        word row = __shfl_sync(EVERY_LANE, low ? rows[0] : rows[LANE_ROWS - 1], at % WARP);
        u32 value = __shfl_sync(EVERY_LANE, low ? values[0] : values[LANE_ROWS - 1], at % WARP);
        if (row == 0) {
            if (value != 0) {
                return false; // 0 = 1
            }
            continue;
        }
        word pivot = lowest(row);
        for (u32 i = 0; i < LANE_ROWS; ++i) {
            bool adds = (rows[i] & pivot) != 0 && at != lane + i * WARP;
            rows[i] ^= adds ? row : 0;
            values[i] ^= adds ? value : 0;
        }
    }
    return true;
}

// The field that this lane stores, from eliminated rows: lane b has the field of value bit b.
__device__ word field_of(const word *rows, const u32 *values, u32 seed) {
    u32 lane = threadIdx.x % WARP;
    word field = 0;
    for (u32 bit = 0; bit < VALUE_BITS; ++bit) {
        word vector = 0;
        for (u32 i = 0; i < LANE_ROWS; ++i) {
            vector |= values[i] >> bit & 1 ? lowest(rows[i]) : 0;
        }
        for (u32 step = WARP / 2; step > 0; step /= 2) {
            vector |= __shfl_xor_sync(EVERY_LANE, vector, step);
        }
        field = lane == bit ? vector : field;
    }
    if (lane < SEED_FIELDS) {
        field |= (word)(seed >> (lane * SEED_BITS) & ((1u << SEED_BITS) - 1)) << COLUMNS;
    }
    return field;
}

// The canonical solution of a group by one warp: that of the lowest seed that has one. Returns whether there is one.
__device__ bool solve_group(const u64 *hashes, const u8 *values, const u16 *members, u32 load, word *field) {
    u32 lane = threadIdx.x % WARP;
    if (load <= FIELD_BITS) {
        u64 hash[LANE_ROWS];
        u32 value[LANE_ROWS];
        for (u32 i = 0; i < LANE_ROWS; ++i) {
            bool has = lane + i * WARP < load;
            hash[i] = has ? hashes[members[lane + i * WARP]] : 0;
            value[i] = has ? values[members[lane + i * WARP]] : 0;
        }
        for (u32 seed = 0; seed < SEEDS; ++seed) {
            word rows[LANE_ROWS];
            u32 left[LANE_ROWS];
            for (u32 i = 0; i < LANE_ROWS; ++i) {
                rows[i] = lane + i * WARP < load ? row_of(hash[i], seed) : 0;
                left[i] = value[i];
            }
            if (eliminate(rows, left, load)) {
                *field = field_of(rows, left, seed);
                return true;
            }
        }
    }
    word none[LANE_ROWS];
    u32 nothing[LANE_ROWS];
    for (u32 i = 0; i < LANE_ROWS; ++i) {
        none[i] = 0;
        nothing[i] = 0;
    }
    *field = field_of(none, nothing, SEEDS); // the mark of a group without a solution
    return false;
}

// Builds one block of the table per thread block: counts and sorts its buckets, balances them, places the keys in
// their groups, and solves the groups, one per warp at a time.
extern "C" __global__ void build_blocks(const u64 *hashes, const u8 *values, const u32 *counts, const u32 *starts,
                                        const u32 *totals, u64 *table, u64 *marks) {
    __shared__ Scratch scratch;
    Scratch *s = &scratch;
    u64 block = blockIdx.x, start = start_of(starts, totals, block);
    u64 *words = table + block * SLOT_WORDS;
    u32 keys = counts[block], warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    hashes += start;
    values += start;
    count_buckets(s, hashes, keys);
    sort_buckets(s);
    attempt(s, keys);
    choose(s);
    settle(s, keys);
    write_choices(s, words);
    place(s, hashes, keys);
    word *fields = (word *)(words + CHOICE_WORDS);
    for (u32 group = warp; group < GROUPS; group += WARPS) {
        word field;
        bool solved = solve_group(hashes, values, s->members + s->firsts[group], s->loads[group], &field);
        if (lane < VALUE_BITS) {
            fields[group * VALUE_BITS + lane] = field;
        }
        if (!solved && lane == 0) {
            atomicOr(&s->marked[group / 32], 1u << (group % 32));
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        marks[block] = (u64)s->marked[1] << 32 | s->marked[0];
    }
}
