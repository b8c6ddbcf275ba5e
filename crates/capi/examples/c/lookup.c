/*
 * A table of a million flows on four nodes, at the owner and at another node.
 *
 *   cc lookup.c $(pkg-config --cflags --libs scalebricks) -o lookup && ./lookup
 */
#include <inttypes.h>
#include <scalebricks.h>
#include <stdio.h>
#include <stdlib.h>

#define FLOWS 1000000

/* Ends the program if a function failed. */
static void check(enum sb_status status)
{
    if (status != SB_STATUS_OK) {
        fprintf(stderr, "lookup: %s\n", sb_last_error());
        exit(1);
    }
}

int main(void)
{
    /* In production the seed is a secret that all nodes share. */
    const uint64_t seed[2] = {0x0123456789abcdef, 0xfedcba9876543210};
    uint64_t(*keys)[2] = calloc(FLOWS, sizeof *keys);
    uint64_t *hashes = calloc(FLOWS, sizeof *hashes);
    uint8_t *nodes = calloc(FLOWS, sizeof *nodes);
    if (keys == NULL || hashes == NULL || nodes == NULL)
        return 1;
    for (uint64_t flow = 0; flow < FLOWS; flow++) {
        keys[flow][0] = 0x0a000000 + flow; /* for example an address */
        nodes[flow] = flow % 4;
    }
    check(sb_hash(seed, (const uint8_t *)keys, sizeof *keys, FLOWS, hashes));

    /* The owner builds from all keys. */
    const struct sb_gpt_params params = {.structure = SB_SETSEP, .value_bits = 2};
    struct sb_control *control;
    check(sb_control_build(&params, hashes, nodes, FLOWS, &control));

    /* It sends a snapshot to each node, which makes its table of it. */
    struct sb_gpt *exported, *table;
    struct sb_buffers *snapshot;
    size_t length;
    check(sb_control_table(control, &exported));
    check(sb_gpt_snapshot(exported, &snapshot));
    sb_gpt_free(exported);
    const uint8_t *bytes = sb_buffers_get(snapshot, 0, &length);
    check(sb_gpt_restore(bytes, length, &table));
    sb_buffers_free(snapshot);

    /* Each thread of a node has a reader, and looks up a batch of packets at a time. */
    struct sb_reader *reader;
    uint8_t found[32];
    check(sb_reader_new(table, &reader));
    check(sb_reader_lookup(reader, &hashes[96], 32, found));
    printf("flow 97 is on node %u\n", found[1]);

    /* A flow moves to node 3: the owner makes a delta, and each node applies it. */
    const struct sb_op op = {.hash = hashes[97], .kind = SB_UPDATE, .value = 3};
    struct sb_buffers *deltas;
    check(sb_control_change(control, &op, 1, &deltas));
    for (size_t at = 0; at < sb_buffers_count(deltas); at++) {
        bytes = sb_buffers_get(deltas, at, &length);
        check(sb_gpt_apply(table, bytes, length, NULL));
    }
    sb_buffers_free(deltas);
    check(sb_reader_lookup(reader, &hashes[97], 1, found));
    printf("now on node %u\n", found[0]);
    printf("%zu bytes at every node, %.2f bits per flow\n", sb_gpt_bytes(table),
           8.0 * (double)sb_gpt_bytes(table) / FLOWS);

    sb_reader_free(reader);
    sb_gpt_free(table);
    sb_control_free(control);
    free(keys);
    free(hashes);
    free(nodes);
    return 0;
}
