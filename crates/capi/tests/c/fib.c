/* The exact table, compared with a plain array; and what each function refuses. */
#include "test.h"

enum { KEYS = 5000, LONGEST = 40 };

struct entry {
    uint8_t key[LONGEST];
    uint8_t value[SB_FIB_VALUE_BYTES];
    bool present;
};

static void fill(uint64_t *state, uint8_t *bytes, size_t count)
{
    for (size_t at = 0; at < count; at++)
        bytes[at] = (uint8_t)next(state);
}

static void compare(const struct entry *entries, const struct sb_fib *fib, size_t key_bytes)
{
    static uint8_t keys[KEYS * LONGEST], values[KEYS][SB_FIB_VALUE_BYTES], found[KEYS];
    const uint8_t zeros[SB_FIB_VALUE_BYTES] = {0};
    size_t present = 0;
    for (size_t at = 0; at < KEYS; at++)
        memcpy(&keys[at * key_bytes], entries[at].key, key_bytes);
    memset(values, 0xee, sizeof values);
    memset(found, 0xee, sizeof found);
    OK(sb_fib_lookup(fib, keys, KEYS, values[0], found));
    for (size_t at = 0; at < KEYS; at++) {
        REQUIRE(found[at] == (entries[at].present ? 1 : 0));
        REQUIRE(memcmp(values[at], entries[at].present ? entries[at].value : zeros, SB_FIB_VALUE_BYTES) == 0);
        present += entries[at].present;
    }
    REQUIRE(sb_fib_len(fib) == present);
    /* Any batch is answered as the whole. */
    for (size_t size = 1; size < 140; size += 3) {
        uint8_t some[140], unused[140][SB_FIB_VALUE_BYTES];
        OK(sb_fib_lookup(fib, keys, size, unused[0], some));
        REQUIRE(memcmp(some, found, size) == 0 && memcmp(unused, values, size * SB_FIB_VALUE_BYTES) == 0);
    }
}

void test_fib(size_t key_bytes)
{
    static struct entry entries[KEYS];
    static uint8_t keys[KEYS * LONGEST], values[KEYS][SB_FIB_VALUE_BYTES];
    const uint64_t seed[2] = {3, 4};
    uint64_t state = key_bytes;
    struct sb_fib *fib;
    OK(sb_fib_new(key_bytes, 100, 1, seed, &fib)); /* grows */
    size_t half = KEYS / 2, inserted;
    for (size_t at = 0; at < KEYS; at++) {
        fill(&state, entries[at].key, key_bytes);
        fill(&state, entries[at].value, SB_FIB_VALUE_BYTES);
        entries[at].present = at < half;
        memcpy(&keys[at * key_bytes], entries[at].key, key_bytes);
        memcpy(values[at], entries[at].value, SB_FIB_VALUE_BYTES);
    }
    OK(sb_fib_insert_all(fib, keys, values[0], half, &inserted));
    REQUIRE(inserted == half);
    compare(entries, fib, key_bytes);
    for (int step = 0; step < 20000; step++) {
        struct entry *entry = &entries[next(&state) % KEYS];
        uint8_t value[SB_FIB_VALUE_BYTES], old[SB_FIB_VALUE_BYTES];
        fill(&state, value, sizeof value);
        switch (next(&state) % 3) {
        case 0:
            REQUIRE(sb_fib_insert(fib, entry->key, value) == (entry->present ? SB_STATUS_EXISTS : SB_STATUS_OK));
            if (!entry->present)
                memcpy(entry->value, value, sizeof value);
            entry->present = true;
            break;
        case 1:
            REQUIRE(sb_fib_update(fib, entry->key, value) == (entry->present ? SB_STATUS_OK : SB_STATUS_MISSING));
            if (entry->present)
                memcpy(entry->value, value, sizeof value);
            break;
        default:
            REQUIRE(sb_fib_remove(fib, entry->key, old) == (entry->present ? SB_STATUS_OK : SB_STATUS_MISSING));
            REQUIRE(!entry->present || memcmp(old, entry->value, sizeof old) == 0);
            entry->present = false;
        }
    }
    compare(entries, fib, key_bytes);
    REQUIRE(sb_fib_bytes(fib) > sb_fib_len(fib) * key_bytes);
    sb_fib_free(fib);

    /* A table that does not grow names the key that had no room; the others are there. */
    OK(sb_fib_new(key_bytes, 100, 0, seed, &fib));
    REQUIRE(sb_fib_insert_all(fib, keys, values[0], KEYS, &inserted) == SB_STATUS_FULL);
    REQUIRE(inserted >= 100 && inserted < KEYS && sb_fib_len(fib) == inserted);
    char start[32];
    snprintf(start, sizeof start, "key %zu: FIB full", inserted);
    REQUIRE(strncmp(sb_last_error(), start, strlen(start)) == 0);
    sb_fib_free(fib);
    printf("ok fib %zu\n", key_bytes);
}

void test_errors(void)
{
    const uint64_t seed[2] = {1, 2};
    const uint64_t twice[2] = {5, 5}, two[2] = {5, 6};
    const uint8_t values[2] = {1, 4}, zeros[16] = {0};
    struct sb_gpt_params params = {.structure = SB_SETSEP, .value_bits = 2};
    struct sb_control *control;
    REQUIRE(sb_control_build(&params, twice, zeros, 2, &control) == SB_STATUS_DUPLICATE && control == NULL);
    REQUIRE(strcmp(sb_last_error(), "two entries have the hash 0x0000000000000005") == 0);
    REQUIRE(sb_control_build(&params, two, values, 2, &control) == SB_STATUS_VALUE);
    REQUIRE(sb_control_build(&params, NULL, values, 2, &control) == SB_STATUS_ARGUMENT);
    REQUIRE(strcmp(sb_last_error(), "hashes is NULL, but has 2 elements") == 0);
    REQUIRE(sb_control_build(NULL, two, zeros, 2, &control) == SB_STATUS_ARGUMENT);
    REQUIRE(sb_control_build(&params, two, zeros, 2, NULL) == SB_STATUS_ARGUMENT);
    params.value_bits = 9;
    REQUIRE(sb_control_build(&params, two, zeros, 2, &control) == SB_STATUS_ARGUMENT);
    params = (struct sb_gpt_params){.structure = 7, .value_bits = 2};
    REQUIRE(sb_control_build(&params, two, zeros, 2, &control) == SB_STATUS_ARGUMENT);
    params = (struct sb_gpt_params){.value_bits = 2, .partitions = 3};
    REQUIRE(sb_control_build(&params, two, zeros, 2, &control) == SB_STATUS_ARGUMENT);

    /* A table without keys; changes that are not possible leave it as it is. */
    params = (struct sb_gpt_params){.value_bits = 2, .capacity = 1000};
    OK(sb_control_build(&params, NULL, NULL, 0, &control));
    struct sb_op ops[2] = {{.hash = 1, .kind = SB_INSERT, .value = 1}, {.hash = 1, .kind = SB_INSERT, .value = 2}};
    struct sb_buffers *deltas;
    REQUIRE(sb_control_change(control, ops, 2, &deltas) == SB_STATUS_EXISTS && deltas == NULL);
    REQUIRE(strcmp(sb_last_error(), "operation 1: the key is already there") == 0);
    ops[1].kind = 3;
    REQUIRE(sb_control_change(control, ops, 2, &deltas) == SB_STATUS_ARGUMENT);
    ops[1] = (struct sb_op){.hash = 2, .kind = SB_REMOVE};
    REQUIRE(sb_control_change(control, ops, 2, &deltas) == SB_STATUS_MISSING);
    ops[1] = (struct sb_op){.hash = 2, .kind = SB_INSERT, .value = 4};
    REQUIRE(sb_control_change(control, ops, 2, &deltas) == SB_STATUS_VALUE);
    REQUIRE(sb_control_len(control) == 0);
    struct sb_gpt *table;
    OK(sb_control_table(control, &table));
    uint64_t position;
    REQUIRE(sb_gpt_position(table, 1, &position) == SB_STATUS_ARGUMENT);
    REQUIRE(sb_gpt_apply(table, zeros, sizeof zeros, NULL) == SB_STATUS_CORRUPT);
    sb_gpt_free(table);
    sb_control_free(control);

    struct sb_fib *fib;
    REQUIRE(sb_fib_new(8, 10, 0, seed, &fib) == SB_STATUS_ARGUMENT && fib == NULL);
    REQUIRE(sb_fib_new(16, 10, 0, NULL, &fib) == SB_STATUS_ARGUMENT);
    REQUIRE(sb_fib_new(16, SIZE_MAX, 0, seed, &fib) == SB_STATUS_ARGUMENT);
    OK(sb_fib_new(16, 10, 0, seed, &fib));
    REQUIRE(sb_fib_insert(fib, zeros, zeros) == SB_STATUS_ARGUMENT);
    REQUIRE(sb_fib_lookup(fib, zeros, SIZE_MAX / 8, NULL, NULL) == SB_STATUS_ARGUMENT);
    OK(sb_fib_lookup(fib, NULL, 0, NULL, NULL));
    sb_fib_free(fib);

    /* NULL is freed, and has neither length nor bytes. */
    sb_fib_free(NULL);
    sb_gpt_free(NULL);
    sb_control_free(NULL);
    sb_reader_free(NULL);
    sb_buffers_free(NULL);
    REQUIRE(sb_fib_len(NULL) == 0 && sb_fib_bytes(NULL) == 0 && sb_gpt_bytes(NULL) == 0);
    REQUIRE(sb_control_len(NULL) == 0 && sb_buffers_count(NULL) == 0);
    size_t length = 7;
    REQUIRE(sb_buffers_get(NULL, 0, &length) == NULL && length == 0);
    REQUIRE(sb_fib_insert(NULL, zeros, zeros) == SB_STATUS_ARGUMENT);

    for (int status = SB_STATUS_OK; status <= SB_STATUS_INTERNAL; status++)
        REQUIRE(strcmp(sb_status_message(status), sb_status_message(-1)) != 0);
    REQUIRE(strcmp(sb_status_message(12), sb_status_message(-1)) == 0);
    printf("ok errors\n");
}
