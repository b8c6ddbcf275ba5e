#include "test.h"

/* SipHash-1-3 of CPython 3.11, with PYTHONHASHSEED=0: hash(bytes(range(n))). */
static void test_hash(void)
{
    const uint64_t seed[2] = {0, 0};
    const struct {
        size_t bytes;
        uint64_t hash;
    } vectors[] = {
        {1, 0x68a914128e01e473}, {7, 0x2f098ab0c751325a}, {8, 0xead411e67ebe2eea}, {15, 0xf30eb725bb91c9ea},
        {16, 0x8972188433a5c5b7}, {17, 0x4883c49a2c009c1d}, {40, 0x95bc321ab41d8206}, {63, 0x385d3e39e5f37359},
    };
    uint8_t key[64];
    for (size_t at = 0; at < sizeof key; at++)
        key[at] = (uint8_t)at;
    for (size_t at = 0; at < sizeof vectors / sizeof *vectors; at++) {
        uint64_t hash;
        OK(sb_hash(seed, key, vectors[at].bytes, 1, &hash));
        REQUIRE(hash == vectors[at].hash);
    }
    /* Many keys of 16 bytes, which take the path with vector registers, one by one and together. */
    enum { COUNT = 150 };
    uint8_t keys[COUNT][16];
    uint64_t state = 1, together[COUNT];
    for (size_t at = 0; at < COUNT; at++)
        for (size_t byte = 0; byte < 16; byte++)
            keys[at][byte] = (uint8_t)next(&state);
    OK(sb_hash(seed, keys[0], 16, COUNT, together));
    for (size_t at = 0; at < COUNT; at++) {
        uint64_t hash;
        OK(sb_hash(seed, keys[at], 16, 1, &hash));
        REQUIRE(hash == together[at]);
    }
}

int main(void)
{
    printf("library %s\n", sb_version());
    test_hash();
    test_gpt(SB_SETSEP);
    test_gpt(SB_OTHELLO);
    test_threads();
    test_fib(16);
    test_fib(40);
    test_errors();
    printf("ok\n");
    return 0;
}
