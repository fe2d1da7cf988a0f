/* Sums of products of which each is rounded to an integer: exact, and so the same in any order.
   `networks.record_gradients` in Python has the proof. */

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

/* As in Python: below which powers of two numbers are taken on either side of a product. */
#define LEFT_BITS 9
#define RIGHT_BITS 10

/* What rows are multiplied by: numbers times a power of two, of their row where each has one, and
   their last bit set; [inner][columns], or [columns][inner] where `across`. */
typedef struct {
    const float *numbers;
    int64_t inner, columns, across;
    float power;
    const float *powers;
} Matrix;

#define ACROSS 64

/* Its rows from k and columns from j as a panel [deep][wide], with zeros beyond `width` columns. */
INLINE void pack(Matrix of, int64_t k, int64_t deep, int64_t j, int64_t width, int64_t wide,
                 float *panel)
{
    for (int64_t i = 0; i < deep * wide && width < wide; i++)
        panel[i] = 0.0f;
    if (!of.across) {
        for (int64_t d = 0; d < deep; d++) {
            const float *from = of.numbers + (k + d) * of.columns + j;
            float power = of.powers ? of.powers[k + d] : of.power;
            for (int64_t l = 0; l < width; l++)
                panel[d * wide + l] = odd_of(from[l] * power);
        }
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

/* Rows [rows][inner] of each silo, the first `sizes` of them, times its weights [inner][columns], or
   [columns][inner] where `across`, which begin at `weights` of its parameters, `stride` after those of
   the silo before. A row is taken below 2^LEFT_BITS by a power of two and weights below 2^RIGHT_BITS.
   Writes float32 [silos][rows][columns]: where `across` with the bias, unless its place is -1, otherwise
   times 0 where `active`, of the same shape, is not positive. Returns 0, or -1 without memory. */
KERNEL int64_t fedaudit_layer_times(const float *values, const int64_t *sizes, int64_t silos,
                                    int64_t rows, int64_t inner, const float *theta, int64_t stride,
                                    int64_t weights, int64_t bias, int64_t columns, int64_t across,
                                    const float *active, float *outputs)
{
    double *sums = malloc((size_t)(1 + rows * columns) * sizeof *sums);
    float *odd = malloc((size_t)(1 + rows * inner) * sizeof *odd);
    double *units = malloc((size_t)(1 + rows) * sizeof *units), unit;
    int64_t status = sums != NULL && odd != NULL && units != NULL ? 0 : -1;
    for (int64_t silo = 0; silo < silos && status == 0; silo++, theta += stride) {
        for (int64_t i = 0; i < sizes[silo]; i++) {
            const float *row = values + (silo * rows + i) * inner;
            float power = power_of(largest_of(row, inner), LEFT_BITS, units + i);
            for (int64_t j = 0; j < inner; j++)
                odd[i * inner + j] = odd_of(row[j] * power);
        }
        Matrix right = {theta + weights, inner, columns, across, 1.0f, NULL};
        right.power = power_of(largest_of(right.numbers, inner * columns), RIGHT_BITS, &unit);
        sums_of_products(odd, sizes[silo], right, 1.0, sums);
        for (int64_t i = 0, at = silo * rows * columns; i < rows; i++)
            for (int64_t j = 0; j < columns; j++, at++) {
                double output = i < sizes[silo] ? sums[i * columns + j] * (units[i] * unit) : 0.0;
                output += across && bias >= 0 ? (double)theta[bias + j] : 0.0;
                outputs[at] = (float)output * (active == NULL || active[at] > 0.0f ? 1.0f : 0.0f);
            }
    }
    free(sums);
    free(odd);
    free(units);
    return status;
}

INLINE double finite_or_0(double value) { return fabs(value) <= DBL_MAX ? value : 0.0; }

/* As `LayerOfSilos.summed` in Python, of slopes [silos][rows][columns], shares [silos][rows] and values
   [silos][rows][width]; `largest` bounds a factor of a prepared number. Writes sums [columns][width] from
   `weights` on, and [columns] from `bias` on unless it is -1, of results [silos][n]. Returns 0, or -1
   without memory. */
KERNEL int64_t fedaudit_layer_sums(const float *slopes, const double *shares, const int64_t *sizes,
                                   int64_t silos, int64_t rows, int64_t columns, const float *values,
                                   int64_t width, double unit, double largest, int64_t weights,
                                   int64_t bias, int64_t n, double *results)
{
    float *left = malloc((size_t)(1 + rows * columns) * sizeof *left);
    float *powers = malloc((size_t)(1 + rows) * sizeof *powers);
    int64_t status = left != NULL && powers != NULL ? 0 : -1;
    for (int64_t silo = 0; silo < silos && status == 0; silo++, results += n) {
        int64_t first = silo * rows, size = sizes[silo];
        double *of_bias = results + bias;
        for (int64_t j = 0; j < columns && bias >= 0; j++)
            of_bias[j] = 0.0;
        for (int64_t r = 0; r < size; r++) {
            const float *slope = slopes + (first + r) * columns, *row = values + (first + r) * width;
            double unit_of_row, share = shares[first + r];
            powers[r] = power_of(largest_of(row, width), LEFT_BITS, &unit_of_row);
            unit_of_row /= unit;
            for (int64_t j = 0; j < columns; j++) {
                double factor = finite_or_0((double)slope[j] * share * unit_of_row);
                factor = factor > largest ? largest : factor < -largest ? -largest : factor;
                left[j * size + r] = odd_of((float)factor);
            }
            for (int64_t j = 0; j < columns && bias >= 0; j++)
                of_bias[j] += rint(finite_or_0((double)slope[j] * share) / unit);
        }
        for (int64_t j = 0; j < columns && bias >= 0; j++)
            of_bias[j] *= unit;
        for (int64_t i = 0; i < columns * width && size == 0; i++)
            results[weights + i] = 0.0;
        Matrix right = {values + first * width, size, width, 0, 1.0f, powers};
        sums_of_products(left, columns, right, unit, results + weights);
    }
    free(left);
    free(powers);
    return status;
}

/* Euclidean norms of TALL rows: as torch, of every fourth square one sum, these four added up, and
   then the squares that are left. */
INLINE void norms_of(const float *const *rows, int64_t columns, double *norms)
{
    double sums[TALL][4] = {{0}};
    int64_t j = 0;
    for (; j + 4 <= columns; j += 4)
        for (int64_t t = 0; t < TALL; t++)
            for (int64_t l = 0; l < 4; l++)
                sums[t][l] += (double)rows[t][j + l] * (double)rows[t][j + l];
    for (int64_t t = 0; t < TALL; t++) {
        double sum = sums[t][0] + sums[t][1] + sums[t][2] + sums[t][3];
        for (int64_t l = j; l < columns; l++)
            sum += (double)rows[t][l] * (double)rows[t][l];
        norms[t] = sqrt(sum);
    }
}

/* Adds to squares [rows] those of the norms of gradients: of slopes [rows][columns] times that of values
   [rows][width], and `bias`, 1 where there is one. */
KERNEL void fedaudit_layer_squares(const float *slopes, const float *values, int64_t rows,
                                   int64_t columns, int64_t width, int64_t bias, double *squares)
{
    for (int64_t i = 0; i < rows; i += TALL) {
        const float *slope[TALL], *row[TALL];
        double of_slopes[TALL], of_rows[TALL];
        for (int64_t t = 0; t < TALL; t++) {
            slope[t] = slopes + (i + t < rows ? i + t : i) * columns;
            row[t] = values + (i + t < rows ? i + t : i) * width;
        }
        norms_of(slope, columns, of_slopes);
        norms_of(row, width, of_rows);
        for (int64_t t = 0; t < TALL && i + t < rows; t++)
            squares[i + t] += of_slopes[t] * of_slopes[t] * (of_rows[t] * of_rows[t] + (double)bias);
    }
}
