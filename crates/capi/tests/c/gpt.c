/* GPTs, compared with a plain array of what each key's value is. */
#include "test.h"
#include <pthread.h>
#include <stdatomic.h>

enum { KEYS = 20000, BITS = 3, BATCH = 37 };

struct model {
    uint64_t hashes[KEYS];
    uint8_t values[KEYS];
    bool present[KEYS];
};

/* Every key that is present has its value, in batches of all sizes up to BATCH. */
static void compare(const struct model *model, struct sb_gpt *table)
{
    struct sb_reader *reader;
    OK(sb_reader_new(table, &reader));
    uint8_t found[BATCH];
    for (size_t first = 0, size = 1; first < KEYS; first += size, size = size % BATCH + 1) {
        if (size > KEYS - first)
            size = KEYS - first;
        OK(sb_reader_lookup(reader, &model->hashes[first], size, found));
        for (size_t at = 0; at < size; at++)
            REQUIRE(!model->present[first + at] || found[at] == model->values[first + at]);
    }
    sb_reader_free(reader);
}

static void apply(struct sb_gpt *table, const struct sb_buffers *deltas)
{
    for (size_t at = 0; at < sb_buffers_count(deltas); at++) {
        size_t length;
        uint8_t changed = 9;
        const uint8_t *delta = sb_buffers_get(deltas, at, &length);
        OK(sb_gpt_apply(table, delta, length, &changed));
        REQUIRE(changed == 1);
        OK(sb_gpt_apply(table, delta, length, &changed)); /* once more does no harm */
        REQUIRE(changed == 0);
        REQUIRE(sb_gpt_apply(table, delta, length - 1, NULL) == SB_STATUS_CORRUPT);
    }
}

/* The owner has exactly the keys of the model. */
static void compare_keys(const struct model *model, const struct sb_control *control)
{
    size_t present = 0, count;
    for (size_t at = 0; at < KEYS; at++) {
        uint8_t value;
        enum sb_status status = sb_control_get(control, model->hashes[at], &value);
        REQUIRE(status == (model->present[at] ? SB_STATUS_OK : SB_STATUS_MISSING));
        REQUIRE(!model->present[at] || value == model->values[at]);
        present += model->present[at];
    }
    REQUIRE(sb_control_len(control) == present);
    static uint64_t hashes[KEYS];
    static uint8_t values[KEYS];
    REQUIRE(sb_control_keys(control, hashes, values, present - 1, &count) == SB_STATUS_ARGUMENT);
    OK(sb_control_keys(control, hashes, values, KEYS, &count));
    REQUIRE(count == present);
    uint64_t sum = 0, wanted = 0;
    for (size_t at = 0; at < count; at++)
        sum += hashes[at] * (values[at] + 1u);
    for (size_t at = 0; at < KEYS; at++)
        wanted += model->present[at] ? model->hashes[at] * (model->values[at] + 1u) : 0;
    REQUIRE(sum == wanted);
}

/* A copy of the table by its snapshot. */
static struct sb_gpt *copy(const struct sb_gpt *table)
{
    struct sb_buffers *snapshot;
    struct sb_gpt *made;
    size_t length;
    OK(sb_gpt_snapshot(table, &snapshot));
    REQUIRE(sb_buffers_count(snapshot) == 1);
    const uint8_t *bytes = sb_buffers_get(snapshot, 0, &length);
    OK(sb_gpt_restore(bytes, length, &made));
    uint8_t *damaged = malloc(length);
    REQUIRE(damaged != NULL);
    memcpy(damaged, bytes, length);
    damaged[length / 2] ^= 4;
    struct sb_gpt *none = made;
    REQUIRE(sb_gpt_restore(damaged, length, &none) == SB_STATUS_CORRUPT && none == NULL);
    REQUIRE(sb_gpt_restore(bytes, length - 1, &none) == SB_STATUS_CORRUPT);
    free(damaged);
    sb_buffers_free(snapshot);
    return made;
}

void test_gpt(uint8_t structure)
{
    static struct model model;
    uint64_t state = structure + 1;
    const uint64_t seed[2] = {7, 8};
    OK(sb_hash(seed, (const uint8_t *)model.hashes, 0, 0, NULL));
    for (size_t at = 0; at < KEYS; at++) {
        model.hashes[at] = next(&state);
        model.values[at] = next(&state) % (1 << BITS);
        model.present[at] = at < KEYS / 2;
    }
    const struct sb_gpt_params params = {
        .structure = structure, .value_bits = BITS, .capacity = KEYS, .partitions = 4, .seed = 5};
    struct sb_control *control;
    OK(sb_control_build(&params, model.hashes, model.values, KEYS / 2, &control));
    compare_keys(&model, control);
    struct sb_gpt *table;
    OK(sb_control_table(control, &table));
    compare(&model, table);
    struct sb_gpt *follower = copy(table);
    uint64_t position;
    OK(sb_gpt_position(follower, 3, &position));
    REQUIRE(position == 1);

    /* Random changes: the table and its copy follow by deltas. */
    struct sb_buffers *deltas;
    for (int round = 0; round < 60; round++) {
        struct sb_op ops[50];
        size_t count = 0;
        bool used[KEYS] = {false};
        while (count < 50) {
            size_t at = next(&state) % KEYS;
            if (used[at])
                continue;
            used[at] = true;
            struct sb_op op = {.hash = model.hashes[at], .value = next(&state) % (1 << BITS)};
            op.kind = !model.present[at] ? SB_INSERT : next(&state) % 3 != 0 ? SB_UPDATE : SB_REMOVE;
            model.present[at] = op.kind != SB_REMOVE;
            model.values[at] = op.kind != SB_REMOVE ? op.value : model.values[at];
            ops[count++] = op;
        }
        OK(sb_control_change(control, ops, count, &deltas));
        REQUIRE(sb_buffers_count(deltas) >= 1 && sb_buffers_count(deltas) <= 4);
        apply(table, deltas);
        apply(follower, deltas);
        sb_buffers_free(deltas);
    }
    compare(&model, table);
    compare(&model, follower);
    compare_keys(&model, control);

    /* The owner's snapshot makes an owner that goes on where this one is. */
    struct sb_buffers *snapshot;
    struct sb_control *heir;
    size_t length;
    OK(sb_control_snapshot(control, &snapshot));
    const uint8_t *bytes = sb_buffers_get(snapshot, 0, &length);
    OK(sb_control_restore(bytes, length, &heir));
    sb_buffers_free(snapshot);
    sb_control_free(control);
    compare_keys(&model, heir);
    size_t at = 0;
    while (!model.present[at])
        at++;
    const struct sb_op op = {.hash = model.hashes[at], .kind = SB_UPDATE, .value = model.values[at] ^ 1};
    model.values[at] ^= 1;
    struct sb_buffers *later;
    OK(sb_control_change(heir, &op, 1, &deltas));
    OK(sb_control_change(heir, &op, 1, &later));
    bytes = sb_buffers_get(later, 0, &length);
    REQUIRE(sb_gpt_apply(table, bytes, length, NULL) == SB_STATUS_GAP);
    apply(table, deltas);
    apply(table, later);
    compare(&model, table);
    sb_buffers_free(deltas);
    sb_buffers_free(later);

    /* What a table of the other structure refuses. */
    const struct sb_gpt_params other = {.structure = structure ^ 1, .value_bits = BITS, .capacity = KEYS};
    struct sb_control *stranger;
    struct sb_gpt *foreign;
    OK(sb_control_build(&other, model.hashes, model.values, 10, &stranger));
    OK(sb_control_table(stranger, &foreign));
    OK(sb_control_change(heir, &op, 1, &deltas));
    bytes = sb_buffers_get(deltas, 0, &length);
    REQUIRE(sb_gpt_apply(foreign, bytes, length, NULL) == SB_STATUS_MISMATCH);
    sb_buffers_free(deltas);
    REQUIRE(sb_gpt_bytes(table) > 0 && sb_control_bytes(heir) > sb_gpt_bytes(table));
    sb_gpt_free(foreign);
    sb_control_free(stranger);
    sb_gpt_free(follower);
    sb_gpt_free(table);
    sb_control_free(heir);
    printf("ok gpt %s\n", structure == SB_SETSEP ? "setsep" : "othello");
}

struct shared {
    struct sb_gpt *table;
    uint64_t hashes[256];
    atomic_bool stop;
};

/* Looks keys up whose values are 1 at first, and become 2 one after the other. */
static void *read_beside_the_writer(void *argument)
{
    struct shared *shared = argument;
    struct sb_reader *reader;
    OK(sb_reader_new(shared->table, &reader));
    uint8_t before[256] = {0}, found[256];
    for (bool last = false; !last;) {
        last = atomic_load(&shared->stop);
        OK(sb_reader_lookup(reader, shared->hashes, 256, found));
        for (size_t at = 0; at < 256; at++) {
            REQUIRE(found[at] == 1 || found[at] == 2);
            REQUIRE(found[at] >= before[at] && (!last || found[at] == 2));
        }
        memcpy(before, found, sizeof before);
    }
    sb_reader_free(reader);
    return NULL;
}

void test_threads(void)
{
    static struct shared shared;
    uint8_t ones[256];
    uint64_t state = 11;
    memset(ones, 1, sizeof ones);
    for (size_t at = 0; at < 256; at++)
        shared.hashes[at] = next(&state);
    const struct sb_gpt_params params = {.structure = SB_SETSEP, .value_bits = 2};
    struct sb_control *control;
    OK(sb_control_build(&params, shared.hashes, ones, 256, &control));
    OK(sb_control_table(control, &shared.table));
    pthread_t threads[2];
    for (size_t at = 0; at < 2; at++)
        REQUIRE(pthread_create(&threads[at], NULL, read_beside_the_writer, &shared) == 0);
    for (size_t at = 0; at < 256; at++) {
        const struct sb_op op = {.hash = shared.hashes[at], .kind = SB_UPDATE, .value = 2};
        struct sb_buffers *deltas;
        OK(sb_control_change(control, &op, 1, &deltas));
        apply(shared.table, deltas);
        sb_buffers_free(deltas);
    }
    atomic_store(&shared.stop, true);
    for (size_t at = 0; at < 2; at++)
        REQUIRE(pthread_join(threads[at], NULL) == 0);
    sb_gpt_free(shared.table);
    sb_control_free(control);
    printf("ok threads\n");
}
