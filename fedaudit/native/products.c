/* Sums of products of which each is rounded to an integer: exact, and so the same in any order.
   `rounded_product` in Python has the proof. */

#include <float.h>

#include "kernels.h"

/* Inner numbers at a time: sums of so many integers of 2^19 stay within 32 bits, and a panel of
   columns in the nearest caches. */
#define DEEP 256
/* Sums of so many stay within a binade around 1.5 * 2^23, where single precision has integers. */
#define CHAIN 8
#define BASE 0x1.8p23f
#define BASE_BITS 0x4b400000u
#define TALL 4
#define MAX_WIDE 48
/* Smaller numbers are left out. */
#define LEAST 0x1p-100f

/* Sums of the products of rows[TALL] and a panel [deep][wide]: int32 [TALL][wide]. */
typedef void Tile(const float *const *rows, const float *panel, int64_t deep, int64_t wide,
                  int32_t *sums);

/* By doubles, which hold a product as it is, where there is no instruction for product and sum. */
static void plain_tile(const float *const *rows, const float *panel, int64_t deep, int64_t wide,
                       int32_t *sums)
{
    double total[TALL][MAX_WIDE] = {{0}};
    for (int64_t d = 0; d < deep; d++)
        for (int64_t t = 0; t < TALL; t++)
            for (int64_t l = 0; l < wide; l++) {
                double product = (double)rows[t][d] * (double)panel[d * wide + l];
                total[t][l] += (product + 0x1.8p52) - 0x1.8p52;
            }
    for (int64_t t = 0; t < TALL; t++)
        for (int64_t l = 0; l < wide; l++)
            sums[t * wide + l] = (int32_t)total[t][l];
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* Of TALL rows and so many vectors of columns all sums stay in registers, which the compiler finds
   where their number is a constant. Product and sum are one instruction, rounded once. The bits of a
   sum near BASE are those of BASE and, added to them, the integer that it is apart: they are added
   up modulo 2^32, and all those of BASE are taken off before. */
#define TILE_OF(vectors)                                                                             \
    do {                                                                                             \
        FLOATS total[TALL][vectors];                                                                 \
        INTS sum[TALL][vectors];                                                                     \
        uint32_t offset = (uint32_t)((deep + CHAIN - 1) / CHAIN) * BASE_BITS;                        \
        for (int i = 0; i < TALL * vectors; i++)                                                     \
            sum[i / vectors][i % vectors] = OF(set1_epi32)((int32_t)(0 - offset));                   \
        for (int64_t d = 0; d < deep;) {                                                             \
            int64_t end = deep - d < CHAIN ? deep : d + CHAIN;                                       \
            for (int i = 0; i < TALL * vectors; i++)                                                 \
                total[i / vectors][i % vectors] = OF(set1_ps)(BASE);                                 \
            _Pragma("GCC unroll 1") for (; d < end; d++)                                             \
                for (int i = 0; i < TALL * vectors; i++)                                             \
                    total[i / vectors][i % vectors] = OF(fmadd_ps)(                                  \
                        OF(set1_ps)(rows[i / vectors][d]),                                           \
                        OF(loadu_ps)(panel + (d * vectors + i % vectors) * LENGTH),                  \
                        total[i / vectors][i % vectors]);                                            \
            for (int i = 0; i < TALL * vectors; i++)                                                 \
                sum[i / vectors][i % vectors] = OF(add_epi32)(                                       \
                    sum[i / vectors][i % vectors], CAST(total[i / vectors][i % vectors]));           \
        }                                                                                            \
        for (int i = 0; i < TALL * vectors; i++)                                                     \
            PUT((INTS *)(sums + i * LENGTH), sum[i / vectors][i % vectors]);                         \
    } while (0)

#define LENGTH 8
#define FLOATS __m256
#define INTS __m256i
#define OF(name) _mm256_##name
#define CAST _mm256_castps_si256
#define PUT _mm256_storeu_si256
__attribute__((target("avx2,fma"))) static void narrow_tile(const float *const *rows,
                                                            const float *panel, int64_t deep,
                                                            int64_t wide, int32_t *sums)
{
    if (wide == LENGTH)
        TILE_OF(1);
    else
        TILE_OF(2);
}
#undef LENGTH
#undef FLOATS
#undef INTS
#undef OF
#undef CAST
#undef PUT

#define LENGTH 16
#define FLOATS __m512
#define INTS __m512i
#define OF(name) _mm512_##name
#define CAST _mm512_castps_si512
#define PUT _mm512_storeu_si512
__attribute__((target("avx512f"))) static void wide_tile(const float *const *rows,
                                                         const float *panel, int64_t deep,
                                                         int64_t wide, int32_t *sums)
{
    if (wide == LENGTH)
        TILE_OF(1);
    else if (wide == 2 * LENGTH)
        TILE_OF(2);
    else
        TILE_OF(3);
}
#endif

/* What this processor takes, how many columns at most, and of which number they are a multiple. */
static Tile *tile_here(int64_t *most, int64_t *length)
{
    *most = 16, *length = 8;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) {
        *most = 48, *length = 16;
        return wide_tile;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return narrow_tile;
#endif
    return plain_tile;
}

#define EXPONENT_OF_ONE 127
#define LEAST_EXPONENT (-100)

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

/* What rows are multiplied by: numbers times a power of two, and their last bit set, [inner][columns],
   or [columns][inner] where `across`. */
typedef struct {
    const float *numbers;
    int64_t inner, columns, across;
    float power;
} Matrix;

#define ACROSS 64

/* Its rows from k and columns from j as a panel [deep][wide], with zeros beyond `width` columns. */
INLINE void pack(Matrix of, int64_t k, int64_t deep, int64_t j, int64_t width, int64_t wide,
                 float *panel)
{
    for (int64_t i = 0; i < deep * wide && width < wide; i++)
        panel[i] = 0.0f;
    if (!of.across) {
        for (int64_t d = 0; d < deep; d++)
            for (int64_t l = 0; l < width; l++)
                panel[d * wide + l] = odd_of(of.numbers[(k + d) * of.columns + j + l] * of.power);
        return;
    }
    for (int64_t l = 0; l < width; l++)
        for (int64_t first = 0; first < deep; first += ACROSS) {
            const float *from = of.numbers + (j + l) * of.inner + k + first;
            int64_t count = deep - first < ACROSS ? deep - first : ACROSS;
            float odd[ACROSS];
            for (int64_t d = 0; d < count; d++)
                odd[d] = odd_of(from[d] * of.power);
            for (int64_t d = 0; d < count; d++)
                panel[(first + d) * wide + l] = odd[d];
        }
}

/* `unit` times the sums over k of left[i][k] * right[k][j], each rounded to an integer: [rows][columns].
   Numbers of `left` are 0 or have the last bit of single precision set. */
INLINE void sums_of_products(const float *left, int64_t rows, Matrix right, double unit,
                             double *products)
{
    float panel[DEEP * MAX_WIDE];
    int32_t sums[TALL * MAX_WIDE];
    int64_t most, length;
    Tile *tile = tile_here(&most, &length);
    for (int64_t j = 0; j < right.columns; j += most) {
        int64_t width = right.columns - j < most ? right.columns - j : most;
        int64_t wide = (width + length - 1) / length * length;
        for (int64_t k = 0; k < right.inner; k += DEEP) {
            int64_t deep = right.inner - k < DEEP ? right.inner - k : DEEP;
            double last = k + deep == right.inner ? unit : 1.0;
            pack(right, k, deep, j, width, wide, panel);
            for (int64_t i = 0; i < rows; i += TALL) {
                const float *of[TALL];
                for (int64_t t = 0; t < TALL; t++)
                    of[t] = left + (i + t < rows ? i + t : i) * right.inner + k;
                tile(of, panel, deep, wide, sums);
                for (int64_t t = i; t < i + TALL && t < rows; t++) {
                    double *to = products + t * right.columns + j;
                    for (int64_t l = 0; l < width; l++)
                        to[l] = ((k > 0 ? to[l] : 0.0) + sums[(t - i) * wide + l]) * last;
                }
            }
        }
    }
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

/* Rows of odd numbers [rows][inner] times weights [inner][columns], or [columns][inner] where
   `across`, which one power of two takes below 2^bits. Writes float32 [rows][columns], with `bias`
   [columns] added and times 0 where `active` [rows][columns] is not positive, unless these are NULL.
   Returns 0, or -1 without memory. */
KERNEL int64_t fedaudit_times(const float *odd, const double *units, int64_t rows, int64_t inner,
                              const float *weights, int64_t columns, int64_t across, int64_t bits,
                              const float *bias, const float *active, float *outputs)
{
    double unit, *sums = malloc(sizeof(double) * (size_t)(rows * columns));
    if (sums == NULL)
        return -1;
    float power = power_of(largest_of(weights, inner * columns), bits, &unit);
    sums_of_products(odd, rows, (Matrix){weights, inner, columns, across, power}, 1.0, sums);
    for (int64_t i = 0; i < rows; i++) {
        double of_row = units[i] * unit;
        for (int64_t j = 0, at = i * columns; j < columns; j++, at++) {
            float output = (float)(bias ? sums[at] * of_row + (double)bias[j] : sums[at] * of_row);
            outputs[at] = active ? output * (active[at] > 0.0f ? 1.0f : 0.0f) : output;
        }
    }
    free(sums);
    return 0;
}

INLINE double finite_or_0(double value) { return fabs(value) <= DBL_MAX ? value : 0.0; }

/* As `OddRows.summed` in Python: of slopes [rows][columns] times shares [rows], and of rows of odd
   numbers [rows][width] times `units`, the sums over rows of outer products, each number rounded to a
   multiple of `unit`; `largest` bounds a factor of an odd number. Writes weights [columns][width] and,
   unless it is NULL, bias [columns]. Returns 0, or -1 without memory. */
KERNEL int64_t fedaudit_summed(const float *slopes, const double *shares, int64_t rows,
                               int64_t columns, const float *odd, const double *units, int64_t width,
                               double unit, double largest, double *weights, double *bias)
{
    float *left = malloc(sizeof(float) * (size_t)(rows * columns));
    if (left == NULL)
        return -1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++) {
            double factor = (double)slopes[r * columns + j] * shares[r] * (units[r] / unit);
            factor = finite_or_0(factor);
            factor = factor > largest ? largest : factor < -largest ? -largest : factor;
            left[j * rows + r] = odd_of((float)factor);
        }
    sums_of_products(left, columns, (Matrix){odd, rows, width, 0, 1.0f}, unit, weights);
    free(left);
    if (bias == NULL)
        return 0;
    for (int64_t j = 0; j < columns; j++)
        bias[j] = 0.0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++)
            bias[j] += rint(finite_or_0((double)slopes[r * columns + j] * shares[r]) / unit);
    for (int64_t j = 0; j < columns; j++)
        bias[j] *= unit;
    return 0;
}

/* Euclidean norms of rows: as torch, of every fourth square one sum, these four added up, and then
   the squares that are left. */
KERNEL void fedaudit_norms(const float *values, int64_t rows, int64_t columns, double *norms)
{
    for (int64_t i = 0; i < rows; i += TALL) {
        double sums[TALL][4] = {{0}};
        const float *of[TALL];
        int64_t j = 0;
        for (int64_t t = 0; t < TALL; t++)
            of[t] = values + (i + t < rows ? i + t : i) * columns;
        for (; j + 4 <= columns; j += 4)
            for (int64_t t = 0; t < TALL; t++)
                for (int64_t l = 0; l < 4; l++)
                    sums[t][l] += (double)of[t][j + l] * (double)of[t][j + l];
        for (int64_t t = 0; t < TALL && i + t < rows; t++) {
            double sum = sums[t][0] + sums[t][1] + sums[t][2] + sums[t][3];
            for (int64_t l = j; l < columns; l++)
                sum += (double)of[t][l] * (double)of[t][l];
            norms[i + t] = sqrt(sum);
        }
    }
}
