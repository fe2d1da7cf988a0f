/* Words of AES-128 over counters, where the processor has instructions for it. */

#include "kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define AES __attribute__((target("aes")))
#define ROUNDS 10
/* Blocks whose instructions follow each other: one takes some cycles, in which others can begin. */
#define TOGETHER 16
#define AT_ONCE 8

AES static inline __m128i next_key(__m128i key, __m128i assisted)
{
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
    return _mm_xor_si128(key, _mm_shuffle_epi32(assisted, 0xff));
}

#define NEXT_KEY(i, constant) \
    keys[i] = next_key(keys[(i) - 1], _mm_aeskeygenassist_si128(keys[(i) - 1], constant))

/* The keys of the rounds, of a key that is a seed and eight bytes of zero. */
AES static void expand(uint64_t seed, __m128i *keys)
{
    keys[0] = _mm_set_epi64x(0, (int64_t)seed);
    NEXT_KEY(1, 0x01);
    NEXT_KEY(2, 0x02);
    NEXT_KEY(3, 0x04);
    NEXT_KEY(4, 0x08);
    NEXT_KEY(5, 0x10);
    NEXT_KEY(6, 0x20);
    NEXT_KEY(7, 0x40);
    NEXT_KEY(8, 0x80);
    NEXT_KEY(9, 0x1b);
    NEXT_KEY(10, 0x36);
}

AES static void encrypt(const __m128i *keys, __m128i *state)
{
    for (int i = 0; i < AT_ONCE; i++)
        state[i] = _mm_xor_si128(state[i], keys[0]);
    for (int step = 1; step < ROUNDS; step++)
        for (int i = 0; i < AT_ONCE; i++)
            state[i] = _mm_aesenc_si128(state[i], keys[step]);
    for (int i = 0; i < AT_ONCE; i++)
        state[i] = _mm_aesenclast_si128(state[i], keys[ROUNDS]);
}

/* The same of TOGETHER blocks, four an instruction. */
__attribute__((target("vaes,avx512f"))) static void encrypt_wide(const __m128i *keys, __m128i *state)
{
    __m512i wide[TOGETHER / 4];
    for (int i = 0; i < TOGETHER / 4; i++)
        wide[i] = _mm512_xor_si512(_mm512_loadu_si512(state + 4 * i), _mm512_broadcast_i32x4(keys[0]));
    for (int step = 1; step < ROUNDS; step++)
        for (int i = 0; i < TOGETHER / 4; i++)
            wide[i] = _mm512_aesenc_epi128(wide[i], _mm512_broadcast_i32x4(keys[step]));
    for (int i = 0; i < TOGETHER / 4; i++)
        _mm512_storeu_si512(state + 4 * i, _mm512_aesenclast_epi128(
                                               wide[i], _mm512_broadcast_i32x4(keys[ROUNDS])));
}

AES static void fill(const uint64_t *seeds, const uint64_t *rounds, const uint64_t *clients,
                     uint32_t purpose, int64_t rows, int64_t blocks, uint64_t *words)
{
    __m128i keys[ROUNDS + 1], state[TOGETHER];
    int64_t row = 0, block = 0, wide = __builtin_cpu_supports("vaes") &&
                                       __builtin_cpu_supports("avx512f");
    while (row < rows) {
        uint64_t seed = seeds[row];
        expand(seed, keys);
        while (row < rows && seeds[row] == seed) {
            int64_t taken = 0;
            if (block + TOGETHER < blocks) { /* The most often: all are of one row. */
                __m128i first = _mm_set_epi32((int32_t)purpose, (int32_t)rounds[row],
                                              (int32_t)clients[row], (int32_t)block);
                for (; taken < TOGETHER; taken++)
                    state[taken] = _mm_add_epi32(first, _mm_cvtsi32_si128((int32_t)taken));
                block += TOGETHER;
            }
            for (; taken < TOGETHER && row < rows && seeds[row] == seed; taken++) {
                state[taken] = _mm_set_epi32((int32_t)purpose, (int32_t)rounds[row],
                                             (int32_t)clients[row], (int32_t)block);
                block = block + 1 < blocks ? block + 1 : 0;
                row += block == 0;
            }
            for (int64_t i = taken; i < TOGETHER; i++)
                state[i] = state[0];
            if (wide)
                encrypt_wide(keys, state);
            else
                for (int64_t i = 0; i < taken; i += AT_ONCE)
                    encrypt(keys, state + i);
            for (int64_t i = 0; i < taken; i++, words += 2)
                _mm_storeu_si128((__m128i *)words, state[i]);
        }
    }
}

#endif

/* Words of rows of counters, as `fedaudit_philox`. Writes [rows][blocks][2]. Returns 1, or 0 and
   nothing where the processor has no such instructions. */
KERNEL int64_t fedaudit_aes(const uint64_t *seeds, const uint64_t *rounds, const uint64_t *clients,
                            uint32_t purpose, int64_t rows, int64_t blocks, uint64_t *words)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("aes")) {
        fill(seeds, rounds, clients, purpose, blocks > 0 ? rows : 0, blocks, words);
        return 1;
    }
#endif
    (void)seeds, (void)rounds, (void)clients, (void)purpose, (void)rows, (void)blocks, (void)words;
    return 0;
}
