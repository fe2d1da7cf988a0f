/* Sums of products of which each is rounded to an integer: exact, and so the same in any order.
   `rounded_product` in Python has the proof. */

#include "kernels.h"

/* Inner numbers at a time: a packed panel of columns stays in the first cache, and sums of so many
   integers of 2^19 within 32 bits. */
#define DEEP 256
/* Sums of so many stay within a binade around 1.5 * 2^23, where single precision has integers. */
#define CHAIN 8
#define BASE 0x1.8p23f
#define BASE_BITS 0x4b400000u
#define TALL 4
#define MAX_WIDE 32
/* Smaller numbers are left out. */
#define LEAST 0x1p-100f

/* Sums of the products of rows[TALL] and a panel [deep][wide], less an offset that is the same for
   all: int32 [TALL][wide], modulo 2^32. */
typedef void Tile(const float *const *rows, const float *panel, int64_t deep, int32_t *sums);

/* By doubles, which hold a product as it is, where there is no instruction for product and sum. */
static void plain_tile(const float *const *rows, const float *panel, int64_t deep, int32_t *sums)
{
    double total[TALL][16] = {{0}};
    for (int64_t d = 0; d < deep; d++)
        for (int64_t t = 0; t < TALL; t++)
            for (int64_t l = 0; l < 16; l++) {
                double product = (double)rows[t][d] * (double)panel[d * 16 + l];
                total[t][l] += (product + 0x1.8p52) - 0x1.8p52;
            }
    for (int64_t t = 0; t < TALL; t++)
        for (int64_t l = 0; l < 16; l++)
            sums[t * 16 + l] = (int32_t)total[t][l];
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* Adds to the sums those of `count` products each of TALL rows and two vectors. Product and sum are
   one instruction, rounded once. The bits of a sum near BASE are those of BASE and, added to them,
   the integer that it is apart. */
#define CHAIN_OF(count)                                                                              \
    do {                                                                                             \
        for (int t = 0; t < TALL; t++)                                                               \
            total[t][0] = total[t][1] = SET(BASE);                                                   \
        _Pragma("GCC unroll 1") for (int64_t d = 0; d < (count); d++, panel += 2 * LENGTH)           \
        {                                                                                            \
            FLOATS one = LOAD(panel), other = LOAD(panel + LENGTH);                                  \
            for (int t = 0; t < TALL; t++) {                                                         \
                FLOATS row = SET(rows[t][done + d]);                                                 \
                total[t][0] = FMA(row, one, total[t][0]);                                            \
                total[t][1] = FMA(row, other, total[t][1]);                                          \
            }                                                                                        \
        }                                                                                            \
        for (int t = 0; t < 2 * TALL; t++) {                                                         \
            INTS *to = (INTS *)(sums + t * LENGTH);                                                  \
            PUT(to, ADD(TAKE(to), CAST(total[t / 2][t % 2])));                                       \
        }                                                                                            \
        done += (count);                                                                             \
        /* What is added to stays in memory: registers are for the totals. */                        \
        __asm__ volatile("" ::: "memory");                                                           \
    } while (0)

#define FUSED_TILE                                                                                   \
    FLOATS total[TALL][2];                                                                           \
    int64_t done = 0, left = deep % CHAIN;                                                           \
    uint32_t offset = (uint32_t)((deep + CHAIN - 1) / CHAIN) * BASE_BITS;                            \
    for (int t = 0; t < TALL * 2 * LENGTH; t++)                                                      \
        sums[t] = (int32_t)(0 - offset);                                                             \
    while (done < deep - left)                                                                       \
        CHAIN_OF(CHAIN);                                                                             \
    if (left)                                                                                        \
        CHAIN_OF(left);

#define LENGTH 8
#define FLOATS __m256
#define INTS __m256i
#define SET _mm256_set1_ps
#define LOAD _mm256_loadu_ps
#define FMA _mm256_fmadd_ps
#define ADD _mm256_add_epi32
#define CAST _mm256_castps_si256
#define TAKE _mm256_loadu_si256
#define PUT _mm256_storeu_si256
__attribute__((target("avx2,fma"))) static void narrow_tile(const float *const *rows,
                                                            const float *panel, int64_t deep,
                                                            int32_t *sums)
{
    FUSED_TILE
}
#undef LENGTH
#undef FLOATS
#undef INTS
#undef SET
#undef LOAD
#undef FMA
#undef ADD
#undef CAST
#undef TAKE
#undef PUT

#define LENGTH 16
#define FLOATS __m512
#define INTS __m512i
#define SET _mm512_set1_ps
#define LOAD _mm512_loadu_ps
#define FMA _mm512_fmadd_ps
#define ADD _mm512_add_epi32
#define CAST _mm512_castps_si512
#define TAKE _mm512_loadu_si512
#define PUT _mm512_storeu_si512
__attribute__((target("avx512f"))) static void wide_tile(const float *const *rows,
                                                         const float *panel, int64_t deep,
                                                         int32_t *sums)
{
    FUSED_TILE
}
#endif

static Tile *tile_here(int64_t *wide)
{
    *wide = 16;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) {
        *wide = 32;
        return wide_tile;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return narrow_tile;
#endif
    return plain_tile;
}

/* units[i] times the sums over k of left[i][k] * right[k][j], each rounded to an integer: float64
   [rows][columns]. Numbers are 0 or have the last bit of single precision set. */
__attribute__((visibility("default"))) void
fedaudit_products(const float *left, const float *right, int64_t rows, int64_t inner,
                  int64_t columns, const double *units, double *products)
{
    float panel[DEEP * MAX_WIDE];
    int32_t sums[TALL * MAX_WIDE];
    int64_t wide;
    Tile *tile = tile_here(&wide);
    for (int64_t j = 0; j < columns; j += wide) {
        int64_t width = columns - j < wide ? columns - j : wide;
        for (int64_t k = 0; k < inner; k += DEEP) {
            int64_t deep = inner - k < DEEP ? inner - k : DEEP, last = k + deep == inner;
            for (int64_t d = 0; d < deep; d++)
                for (int64_t l = 0; l < wide; l++)
                    panel[d * wide + l] = l < width ? right[(k + d) * columns + j + l] : 0.0f;
            for (int64_t i = 0; i < rows; i += TALL) {
                const float *of[TALL];
                for (int64_t t = 0; t < TALL; t++)
                    of[t] = left + (i + t < rows ? i + t : i) * inner + k;
                tile(of, panel, deep, sums);
                for (int64_t t = i; t < i + TALL && t < rows; t++) {
                    double *to = products + t * columns + j, unit = last ? units[t] : 1.0;
                    for (int64_t l = 0; l < width; l++)
                        to[l] = ((k > 0 ? to[l] : 0.0) + sums[(t - i) * wide + l]) * unit;
                }
            }
        }
    }
}

#define EXPONENT_OF_ONE 127
#define LEAST_EXPONENT (-100)
#define ACROSS 16

INLINE uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The largest size among numbers, by its bits: those of NaN are larger than all others. */
INLINE uint32_t largest_of(const float *values, int64_t count)
{
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t size = bits_of(values[i]) & 0x7fffffffu;
        largest = size > largest ? size : largest;
    }
    return largest;
}

/* The power of two that takes numbers of this largest size below 2^bits. What takes them back is
   written to `unit`: NaN where one is not finite. */
INLINE float power_of(uint32_t largest, int64_t bits, double *unit)
{
    int64_t exponent = (int64_t)(largest >> 23) - EXPONENT_OF_ONE + 1;
    exponent = exponent < LEAST_EXPONENT ? LEAST_EXPONENT : exponent;
    float power = of_bits((uint32_t)(EXPONENT_OF_ONE + bits - exponent) << 23);
    *unit = largest < 0x7f800000u ? 1.0 / (double)power : (double)NAN;
    return power;
}

INLINE float odd_of(float value)
{
    uint32_t bits = bits_of(value), size = bits & 0x7fffffffu;
    return size >= bits_of(LEAST) && size < 0x7f800000u ? of_bits(bits | 1) : 0.0f;
}

/* Numbers of rows times a power of two each, which takes them below 2^bits; then their last bit is
   set. Numbers below 2^-100, and those that are not finite, become 0. Writes odd [rows][columns] and
   units [rows]. */
KERNEL void fedaudit_odd_rows(const float *values, int64_t rows, int64_t columns, int64_t bits,
                              float *odd, double *units)
{
    for (int64_t i = 0; i < rows; i++) {
        const float *row = values + i * columns;
        float power = power_of(largest_of(row, columns), bits, units + i);
        for (int64_t j = 0; j < columns; j++)
            odd[i * columns + j] = odd_of(row[j] * power);
    }
}

/* The same of all numbers by one power, or as large as they are where `bits` is 0; [columns][rows]
   where `across`. */
KERNEL void fedaudit_odd_matrix(const float *values, int64_t rows, int64_t columns, int64_t bits,
                                int64_t across, float *odd, double *unit)
{
    float power = 1.0f;
    *unit = 1.0;
    if (bits)
        power = power_of(largest_of(values, rows * columns), bits, unit);
    if (!across) {
        for (int64_t i = 0; i < rows * columns; i++)
            odd[i] = odd_of(values[i] * power);
        return;
    }
    for (int64_t i = 0; i < rows; i += ACROSS)
        for (int64_t j = 0; j < columns; j++)
            for (int64_t r = i; r < i + ACROSS && r < rows; r++)
                odd[j * rows + r] = odd_of(values[r * columns + j] * power);
}
