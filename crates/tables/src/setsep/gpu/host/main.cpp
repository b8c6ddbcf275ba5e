// Runs all kernels as gpu/device.rs launches them: main INPUT OUTPUT ORDER.
//
// INPUT: the number of keys, words per key (0 if the keys are hashes) and the hasher's state, 6 words; the keys or
// hashes; the values, a byte each. OUTPUT: the arrays of gpu/reference.rs, one after another. ORDER is 0 or 1.

static void *array(size_t bytes, int fill) {
    void *memory = std::malloc(bytes + 1);
    std::memset(memory, fill, bytes);
    return memory;
}

static void read(void *to, size_t bytes, std::FILE *from) {
    if (std::fread(to, 1, bytes, from) != bytes) {
        std::exit(2);
    }
}

int main(int, char **arguments) {
    std::FILE *input = std::fopen(arguments[1], "rb"), *output = std::fopen(arguments[2], "wb");
    if (input == nullptr || output == nullptr) {
        return 2;
    }
    bool backwards = arguments[3][0] == '1';
    u64 head[6];
    read(head, sizeof head, input);
    u64 count = head[0];
    u32 words = (u32)head[1], tiles = (BLOCKS + TILE - 1) / TILE, grid = 3;
    u64 *hashes = (u64 *)array(count * 8, 0xA5), *out_hashes = (u64 *)array(count * 8, 0xA5);
    u8 *values = (u8 *)array(count, 0xA5), *out_values = (u8 *)array(count, 0xA5);
    u16 *ranks = (u16 *)array(count * 2, 0xA5);
    u32 *counts = (u32 *)array(BLOCKS * 4, 0), *starts = (u32 *)array(BLOCKS * 4, 0xA5);
    u32 *totals = (u32 *)array(tiles * 4, 0xA5);
    u64 *table = (u64 *)array((size_t)BLOCKS * SLOT_WORDS * 8, 0xA5), *marks = (u64 *)array(BLOCKS * 8, 0xA5);
    u64 status[2] = { ~0ull, ~0ull };
    if (words == 0) {
        read(hashes, count * 8, input);
    } else {
        u64 *keys = (u64 *)array(count * words * 8, 0);
        read(keys, count * words * 8, input);
        launch(grid, THREADS, backwards, [&] {
            hash_keys(keys, words, count, head[2], head[3], head[4], head[5], hashes);
        });
    }
    read(values, count, input);
    launch(grid, THREADS, backwards, [&] { histogram(hashes, values, count, counts, ranks, status); });
    launch(tiles, THREADS, backwards, [&] { scan_tiles(counts, starts, totals, status); });
    launch(1, THREADS, backwards, [&] { scan_totals(totals); });
    if (status[WRONG_VALUE] == ~0ull && status[FULL_BLOCK] == ~0ull) {
        launch(grid, THREADS, backwards, [&] {
            scatter(hashes, values, ranks, count, starts, totals, out_hashes, out_values);
        });
        launch(BLOCKS, THREADS, backwards, [&] {
            build_blocks(out_hashes, out_values, counts, starts, totals, table, marks);
        });
    }
    std::fwrite(status, 8, 2, output);
    std::fwrite(table, 8, (size_t)BLOCKS * SLOT_WORDS, output);
    std::fwrite(marks, 8, BLOCKS, output);
    std::fwrite(out_hashes, 8, count, output);
    std::fwrite(counts, 4, BLOCKS, output);
    std::fwrite(starts, 4, BLOCKS, output);
    std::fwrite(totals, 4, tiles, output);
    std::fwrite(out_values, 1, count, output);
    return std::fclose(output) == 0 ? 0 : 2;
}
