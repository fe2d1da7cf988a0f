/* Philox4x32-10 and what is drawn with its words: whole numbers throughout. */

#include "kernels.h"

/* Words of rows of counters: row i has its own seed, round and client, and `blocks` counters.
   Writes [rows][blocks][4]. */
KERNEL void fedaudit_philox(const uint64_t *seeds, const uint64_t *rounds, const uint64_t *clients,
                            uint32_t purpose, int64_t rows, int64_t blocks, uint32_t *words)
{
    for (int64_t row = 0; row < rows; row++) {
        uint32_t *own = words + row * blocks * 4;
        for (int64_t block = 0; block < blocks; block++) {
            uint32_t c0 = (uint32_t)block, c1 = (uint32_t)clients[row];
            uint32_t c2 = (uint32_t)rounds[row], c3 = purpose;
            uint32_t k0 = (uint32_t)seeds[row], k1 = (uint32_t)(seeds[row] >> 32);
            for (int step = 0; step < 10; step++) {
                uint64_t one = (uint64_t)c0 * 0xD2511F53u, two = (uint64_t)c2 * 0xCD9E8D57u;
                c0 = (uint32_t)(two >> 32) ^ c1 ^ k0;
                c2 = (uint32_t)(one >> 32) ^ c3 ^ k1;
                c1 = (uint32_t)two;
                c3 = (uint32_t)one;
                k0 += 0x9E3779B9u;
                k1 += 0xBB67AE85u;
            }
            own[4 * block] = c0;
            own[4 * block + 1] = c1;
            own[4 * block + 2] = c2;
            own[4 * block + 3] = c3;
        }
    }
}

/* The first `count` distinct numbers of each row, each the remainder of a pair of words, ascending.

   words [rows][draws][2]; `seen` has a bit for each number below `population`, all 0. Writes
   [rows][count]. Returns 1, or 0 where a row has fewer. */
KERNEL int64_t fedaudit_distinct(const uint32_t *words, int64_t rows, int64_t draws,
                                 uint64_t population, int64_t count, uint64_t *seen,
                                 int64_t *numbers)
{
    int64_t bytes = (int64_t)((population + 63) / 64) * 8;
    for (int64_t row = 0; row < rows; row++) {
        const uint32_t *pair = words + row * draws * 2;
        int64_t found = 0;
        for (int64_t i = 0; i < draws && found < count; i++, pair += 2) {
            uint64_t number = ((uint64_t)pair[0] << 32 | pair[1]) % population;
            uint64_t bit = (uint64_t)1 << (number & 63);
            found += !(seen[number >> 6] & bit);
            seen[number >> 6] |= bit;
        }
        if (found < count)
            return 0;
        int64_t *next = numbers + row * count;
        for (int64_t word = 0; word < bytes / 8; word++)
            for (uint64_t left = seen[word]; left; left &= left - 1)
                *next++ = word * 64 + __builtin_ctzll(left);
        memset(seen, 0, bytes);
    }
    return 1;
}
