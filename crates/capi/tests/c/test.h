/* What the parts of the test share. */
#ifndef TEST_H
#define TEST_H

#include <scalebricks.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s (last error: %s)\n", __FILE__, __LINE__, #condition,                 \
                    sb_last_error());                                                                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define OK(call) REQUIRE((call) == SB_STATUS_OK)

/* A sequence without pattern. */
static inline uint64_t next(uint64_t *state)
{
    uint64_t word = *state += 0x9e3779b97f4a7c15;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    return word ^ (word >> 31);
}

void test_gpt(uint8_t structure);
void test_threads(void);
void test_fib(size_t key_bytes);
void test_errors(void);

#endif
