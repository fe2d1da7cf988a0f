/* Normal numbers of random words, as `wide_normals` in Python, where the errors are bounded. */

#include "kernels.h"

/* The series of logarithm, sine and cosine, each without its first terms. */
static const double LOGARITHM[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                   2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
static const double SINE[] = {-1.0 / 6,         1.0 / 120,         -1.0 / 5040,
                              1.0 / 362880,     -1.0 / 39916800,   1.0 / 6227020800,
                              -1.0 / 1307674368000, 1.0 / 355687428096000};
static const double COSINE[] = {1.0 / 24,        -1.0 / 720,         1.0 / 40320,
                                -1.0 / 3628800,  1.0 / 479001600,    -1.0 / 87178291200,
                                1.0 / 20922789888000};
#define SUM(series, z) polynomial(series, (int)(sizeof(series) / sizeof(*series)), z)
#define LN2_HIGH 0x1.62e42feep-1 /* 32 bits: its products with small integers are exact */
#define LN2_LOW 0x1.a39ef35793c76p-33
#define TURN 0x1.921fb54442d18p-62 /* pi * 2^-63 */
#define ROOT_HALF 0x3fe6a09e00000000u /* bits of a number just below it */
#define ONE 0x3ff0000000000000u
#define FRACTION 0x000fffffffffffffu
#define QUARTER 0x4000000000000000u

INLINE double as_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint64_t as_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A number below 2^63 less `less`, a multiple of 2^32, rounded once. No instruction before AVX-512
   converts several: 2^84 and 2^52 are added to the halves by their bits, and taken off again. */
INLINE double whole(uint64_t number, double less)
{
    double high = as_double(number >> 32 | 0x4530000000000000u) - (0x1p84 + 0x1p52 + less);
    return high + as_double((number & 0xffffffffu) | 0x4330000000000000u);
}

/* Even and odd terms apart: half the sums wait for each other. */
INLINE double polynomial(const double *series, int terms, double z)
{
    double square = z * z, even = 0.0, odd = 0.0;
    for (int i = terms - 1; i >= 0; i--)
        if (i % 2)
            odd = odd * square + series[i];
        else
            even = even * square + series[i];
    return even + odd * z;
}

/* -2 log u of a word: u = 2^k m, m from root 1/2 to root 2, and log m by that of (1+s) / (1-s). */
INLINE double square_of_radius(uint64_t word)
{
    double u = (whole(word >> 1, 0.0) + 0.5) * 0x1p-63;
    u = u < 1.0 - 0x1p-53 ? u : 1.0 - 0x1p-53;
    uint64_t bits = as_bits(u) + (ONE - ROOT_HALF);
    double k = as_double(bits >> 52 | 0x4330000000000000u) - (0x1p52 + 1023.0);
    double f = as_double((bits & FRACTION) + ROOT_HALF) - 1.0;
    double s = f / (2.0 + f), half = 0.5 * f * f, z = s * s;
    double small = s * (half + z * SUM(LOGARITHM, z)) + k * LN2_LOW;
    return -2.0 * (k * LN2_HIGH - ((half - small) - f));
}

/* Cosine and sine of a word, which is an angle as a signed number of 2^-63 half turns. */
INLINE void turn(uint64_t word, double *one, double *other)
{
    uint64_t turned = word + QUARTER / 2, quarter = turned >> 62;
    double x = whole(turned & (QUARTER - 1), 0x1p61) * TURN, z = x * x;
    double sine = x + x * z * SUM(SINE, z);
    double half = 0.5 * z, rest = 1.0 - half;
    double cosine = rest + (((1.0 - rest) - half) + z * z * SUM(COSINE, z));
    uint64_t swap = 0 - (quarter & 1), c = as_bits(cosine), s = as_bits(sine);
    uint64_t first = (c & ~swap) | (s & swap), second = (s & ~swap) | (c & swap);
    *one = as_double(first ^ ((quarter + 1) & 2) << 62);
    *other = as_double(second ^ (quarter & 2) << 62);
}

/* A number of pairs at a time, and where they are: pair `column` of [2][half] numbers of `row`. */
#define PAIRS 128
typedef struct {
    int64_t half, row, column;
} Place;

/* How many of `left` pairs are side by side from this place, which is moved behind them; where their
   first numbers are is written to `at`. */
INLINE int64_t side_by_side(Place *from, int64_t left, int64_t *at)
{
    int64_t size = from->half - from->column < left ? from->half - from->column : left;
    *at = 2 * from->row * from->half + from->column;
    from->column += size;
    if (from->column == from->half) {
        from->column = 0;
        from->row++;
    }
    return size;
}

/* Normal numbers [rows][2][half] of as many words, whose place they may take: pairs are read before they are
   written. */
KERNEL void fedaudit_normals(const uint64_t *words, int64_t rows, int64_t half, double *numbers)
{
    uint64_t radii[PAIRS] = {0}, angles[PAIRS] = {0};
    double radius[PAIRS], one[PAIRS], other[PAIRS];
    Place reading = {half, 0, 0}, writing = reading;
    for (int64_t left = rows * half; left > 0; left -= PAIRS) {
        int64_t count = left < PAIRS ? left : PAIRS, full = (count + LANES - 1) / LANES * LANES, at;
        for (int64_t l = 0, size; l < count; l += size) {
            size = side_by_side(&reading, count - l, &at);
            for (int64_t i = 0; i < size; i++) {
                radii[l + i] = words[at + i];
                angles[l + i] = words[at + half + i];
            }
        }
        for (int64_t l = 0; l < full; l++)
            radius[l] = square_of_radius(radii[l]);
        for (int64_t l = 0; l < full; l++)
            turn(angles[l], one + l, other + l);
        for (int64_t l = 0; l < full; l++) {
            double length = sqrt(radius[l]);
            one[l] *= length;
            other[l] *= length;
        }
        for (int64_t l = 0, size; l < count; l += size) {
            size = side_by_side(&writing, count - l, &at);
            for (int64_t i = 0; i < size; i++) {
                numbers[at + i] = one[l + i];
                numbers[at + half + i] = other[l + i];
            }
        }
    }
}

/* As `noised` in Python: sums [rows][n] get noise of standard deviation 1 times `deviations` [rows] and
   become multiples of `spacings` [rows], powers of two; `quotients` [rows][n] are these as float32 over
   `divisor`. */
KERNEL void fedaudit_noised(const double *noise, const double *deviations, const double *spacings,
                            int64_t rows, int64_t n, float divisor, double *sums, float *quotients)
{
    for (int64_t row = 0; row < rows; row++) {
        double steps = 1.0 / spacings[row];
        for (int64_t i = row * n; i < (row + 1) * n; i++) {
            sums[i] = rint((noise[i] * deviations[row] + sums[i]) * steps) * spacings[row];
            quotients[i] = (float)sums[i] / divisor;
        }
    }
}
