/* A convolution with kernels of 3 by 3 and, behind it, the maximum of squares of 2 by 2; before it
   may be a ReLU.

   Forward by Winograd's minimal filtering F(2 x 2, 3 x 3) (Lavin and Gray, "Fast algorithms for
   convolutional neural networks", 2016): the four outputs of a square take 16 products for each
   pair of channels, not 36. Backward the slope of a square reaches one of its outputs alone, so
   there is a quarter of the work, and none for squares whose slope is zero. Sums run in an order
   that follows from the sizes alone: an image's numbers do not depend on those beside it. */

#include "kernels.h"

/* Channels at a time; numbers of both sides of a convolution are multiples of it. */
#define WIDE 16
/* Squares at a time, whose sums stay in registers. */
#define SQUARES 6
#define TERMS 16
#define TAPS 9
/* Rows of squares at a time, so that what they read and write stays in the first cache. */
#define BAND 2

typedef float Vector __attribute__((vector_size(4 * WIDE), aligned(4)));
#define AT(place) (*(Vector *)(place))
#define OF(place) (*(const Vector *)(place))
#define UNROLL _Pragma("GCC unroll 16")

typedef struct {
    int64_t images, height, width, in, out, tall, wide, across;
} Sizes;

/* [images][height][width][in] maps; squares of [tall][wide], of which `across` fill up a row. */
static Sizes sizes_of(int64_t images, int64_t height, int64_t width, int64_t in, int64_t out)
{
    int64_t tall = (height - 2) / 2, wide = (width - 2) / 2;
    return (Sizes){images, height, width, in, out, tall, wide, (wide + SQUARES - 1) / SQUARES * SQUARES};
}

/* Room for floats, so aligned that no vector is in two lines of the cache. */
static float *room_for(int64_t count)
{
    int64_t line = 4 * WIDE;
    return aligned_alloc((size_t)line, (size_t)((count * 4 + line - 1) / line * line));
}

/* Three taps, a step apart, as four terms. */
INLINE void four_terms(const float *taps, int64_t step, float *terms)
{
    float ends = taps[0] + taps[2 * step];
    terms[0] = taps[0];
    terms[1] = 0.5f * (ends + taps[step]);
    terms[2] = 0.5f * (ends - taps[step]);
    terms[3] = taps[2 * step];
}

/* Weights [out][3][3][in] as terms [TERMS][in][out]. */
EACH_PROCESSOR static void terms_of_weights(const float *weights, const Sizes *is, float *terms)
{
    for (int64_t i = 0; i < is->in; i++)
        for (int64_t o = 0; o < is->out; o++) {
            float columns[3][4], all[TERMS];
            for (int c = 0; c < 3; c++)
                four_terms(weights + (TAPS * o + c) * is->in + i, 3 * is->in, columns[c]);
            for (int r = 0; r < 4; r++)
                four_terms(columns[0] + r, 4, all + 4 * r);
            for (int t = 0; t < TERMS; t++)
                terms[(t * is->in + i) * is->out + o] = all[t];
        }
}

/* The terms [TERMS][across][in] of a row of squares, each made of 4 by 4 pixels. */
EACH_PROCESSOR static void terms_of_row(const float *maps, const Sizes *is, float *terms)
{
    int64_t row = is->width * is->in, apart = is->across * is->in;
    for (int64_t x = 0; x < is->wide; x++)
        for (int64_t i = 0; i < is->in; i += WIDE) {
            Vector rows[4][4];
            UNROLL for (int c = 0; c < 4; c++)
            {
                const float *from = maps + (2 * x + c) * is->in + i;
                Vector a = OF(from), b = OF(from + row), d = OF(from + 2 * row);
                rows[0][c] = a - d;
                rows[1][c] = b + d;
                rows[2][c] = d - b;
                rows[3][c] = b - OF(from + 3 * row);
            }
            UNROLL for (int r = 0; r < 4; r++)
            {
                float *to = terms + 4 * r * apart + x * is->in + i;
                AT(to) = rows[r][0] - rows[r][2];
                AT(to + apart) = rows[r][1] + rows[r][2];
                AT(to + 2 * apart) = rows[r][2] - rows[r][1];
                AT(to + 3 * apart) = rows[r][1] - rows[r][3];
            }
        }
}

/* Of one term: [across][in] times [in][out]. */
EACH_PROCESSOR static void multiply(const float *left, const float *right, const Sizes *is,
                                    float *products)
{
    int64_t in = is->in, out = is->out;
    for (int64_t x = 0; x < is->across; x += SQUARES, left += SQUARES * in)
        for (int64_t o = 0; o < out; o += WIDE) {
            Vector sums[SQUARES] = {0};
            for (int64_t i = 0; i < in; i++) {
                Vector own = OF(right + i * out + o);
                UNROLL for (int s = 0; s < SQUARES; s++) sums[s] += own * left[s * in + i];
            }
            UNROLL for (int s = 0; s < SQUARES; s++) AT(products + (x + s) * out + o) = sums[s];
        }
}

/* The largest of each square's four outputs, the first of equal ones, and its number:
   [wide][out]. A NaN is the largest. */
EACH_PROCESSOR static void largest_of_row(const float *products, const float *bias,
                                          const Sizes *is, float *largest, int32_t *numbers)
{
    int64_t apart = is->across * is->out;
    for (int64_t x = 0; x < is->wide; x++)
        for (int64_t o = 0; o < is->out; o += WIDE) {
            const float *from = products + x * is->out + o;
            float *to = largest + x * is->out + o, outputs[4][WIDE];
            int32_t *number = numbers + x * is->out + o;
            Vector rows[2][4], own = OF(bias + o);
            UNROLL for (int c = 0; c < 4; c++)
            {
                Vector b = OF(from + (4 + c) * apart), d = OF(from + (8 + c) * apart);
                rows[0][c] = OF(from + c * apart) + b + d;
                rows[1][c] = b - d - OF(from + (12 + c) * apart);
            }
            UNROLL for (int r = 0; r < 2; r++)
            {
                AT(outputs[2 * r]) = rows[r][0] + rows[r][1] + rows[r][2] + own;
                AT(outputs[2 * r + 1]) = rows[r][1] - rows[r][2] - rows[r][3] + own;
            }
            for (int l = 0; l < WIDE; l++) {
                float best = outputs[0][l];
                int32_t place = 0;
                UNROLL for (int n = 1; n < 4; n++)
                {
                    int more = (outputs[n][l] > best) | (outputs[n][l] != outputs[n][l]);
                    best = more ? outputs[n][l] : best;
                    place = more ? n : place;
                }
                to[l] = best;
                number[l] = place;
            }
        }
}

/* An image as the convolution takes it: with zeros for what is below, where that is `rectified`. */
EACH_PROCESSOR static void take(const float *image, int64_t count, int64_t rectified, float *taken)
{
    for (int64_t i = 0; i < count; i++)
        taken[i] = rectified && image[i] < 0.0f ? 0.0f : image[i];
}

/* The pooled outputs [images][out][tall][wide] of maps [images][height][width][in] by weights
   [out][3][3][in] and a bias [out], and which of its square each is, from 0 to 3. -1 for want of
   memory. */
__attribute__((visibility("default"))) int64_t
fedaudit_pooled(const float *maps, const float *weights, const float *bias, int64_t images,
                int64_t height, int64_t width, int64_t in, int64_t out, int64_t rectified,
                float *pooled, uint8_t *places)
{
    Sizes own = sizes_of(images, height, width, in, out), *is = &own;
    int64_t left = is->across * in, right = in * out, products = is->across * out;
    int64_t image = height * width * in;
    float *room = room_for(TERMS * (left + right + products) + 2 * products + image);
    if (!room)
        return -1;
    memset(room, 0, (size_t)(TERMS * left) * sizeof(float)); /* for squares that fill up a row */
    float *of_row = room, *of_weights = of_row + TERMS * left, *made = of_weights + TERMS * right;
    float *largest = made + TERMS * products;
    float *taken = largest + products;
    int32_t *numbers = (int32_t *)(taken + image);
    terms_of_weights(weights, is, of_weights);
    for (int64_t b = 0; b < images; b++) {
        take(maps + b * image, image, rectified, taken);
        for (int64_t y = 0; y < is->tall; y++) {
            terms_of_row(taken + 2 * y * width * in, is, of_row);
            for (int64_t t = 0; t < TERMS; t++)
                multiply(of_row + t * left, of_weights + t * right, is, made + t * products);
            largest_of_row(made, bias, is, largest, numbers);
            for (int64_t o = 0; o < out; o++)
                for (int64_t x = 0; x < is->wide; x++) {
                    int64_t at = ((b * out + o) * is->tall + y) * is->wide + x;
                    pooled[at] = largest[x * out + o];
                    places[at] = (uint8_t)numbers[x * out + o];
                }
        }
    }
    free(room);
    return 0;
}

/* Backward WIDE channels are computed after each other, and their numbers kept side by side. */

/* Numbers [count][in] as [in / WIDE][count][WIDE], with zeros for what is below where they are
   `rectified`. */
EACH_PROCESSOR static void apart(const float *numbers, int64_t count, int64_t in, int64_t rectified,
                                 float *found)
{
    for (int64_t i = 0; i < in; i += WIDE)
        for (int64_t n = 0; n < count; n++, found += WIDE)
            for (int64_t l = 0; l < WIDE; l++) {
                float number = numbers[n * in + i + l];
                found[l] = rectified && number < 0.0f ? 0.0f : number;
            }
}

/* The other way round. */
EACH_PROCESSOR static void together(const float *numbers, int64_t count, int64_t in, float *found)
{
    for (int64_t i = 0; i < in; i += WIDE)
        for (int64_t n = 0; n < count; n++, numbers += WIDE)
            AT(found + n * in + i) = OF(numbers);
}

/* Takes away the slopes by numbers that a ReLU left at zero. */
EACH_PROCESSOR static void rectify(const float *numbers, int64_t count, float *slopes)
{
    for (int64_t n = 0; n < count; n++)
        slopes[n] = numbers[n] <= 0.0f ? 0.0f : slopes[n];
}

/* A slope that is not zero, and how far behind the band's first pixel its square's output is. */
typedef struct {
    float slope;
    int32_t behind;
} Reached;

/* Lists what slopes reach in a band of `rows` rows of squares of one channel. Returns how many. */
INLINE int64_t list_band(const float *slopes, const uint8_t *places, int64_t rows, const Sizes *is,
                         Reached *reached, float *to_bias)
{
    int32_t row = (int32_t)is->width * WIDE;
    Reached *next = reached;
    float sum = *to_bias;
    for (int64_t y = 0; y < rows; y++)
        for (int64_t x = 0; x < is->wide; x++, slopes++, places++) {
            int32_t across = (int32_t)(2 * x + (*places & 1)) * WIDE;
            uint32_t bits;
            memcpy(&bits, slopes, sizeof bits);
            *next = (Reached){*slopes, (int32_t)(2 * y + (*places >> 1)) * row + across};
            next += bits << 1 != 0; /* of either zero the rest is none */
            sum += *slopes;
        }
    *to_bias = sum;
    return next - reached;
}

/* Adds what a channel's slopes make of the maps and of weights [TAPS][WIDE] to the slopes by the
   other. */
INLINE void spread(const Reached *reached, int64_t count, const float *maps, const float *weights,
                   int64_t row, float *to_weights, float *to_maps)
{
    Vector own[TAPS], sums[TAPS];
    UNROLL for (int t = 0; t < TAPS; t++)
    {
        own[t] = OF(weights + t * WIDE);
        sums[t] = OF(to_weights + t * WIDE);
    }
    for (int64_t n = 0; n < count; n++) {
        const float *from = maps + reached[n].behind;
        float *to = to_maps + reached[n].behind, slope = reached[n].slope;
        UNROLL for (int r = 0; r < 3; r++, from += row, to += row)
            UNROLL for (int c = 0; c < 3; c++)
        {
            sums[3 * r + c] += OF(from + c * WIDE) * slope;
            AT(to + c * WIDE) += own[3 * r + c] * slope;
        }
    }
    UNROLL for (int t = 0; t < TAPS; t++) AT(to_weights + t * WIDE) = sums[t];
}

/* The same of all channels that come out, and WIDE that go in. */
EACH_PROCESSOR static void spread_all(const Reached *reached, const int64_t *counts,
                                      const float *maps, const float *weights, const Sizes *is,
                                      float *to_weights, float *to_maps)
{
    for (int64_t o = 0; o < is->out; o++, weights += TAPS * WIDE, to_weights += TAPS * WIDE)
        spread(reached + o * BAND * is->wide, counts[o], maps, weights, is->width * WIDE, to_weights,
               to_maps);
}

/* The slopes by weights, bias and maps, shaped like these, of those by the pooled outputs; the
   arrays are those of `fedaudit_pooled`. -1 for want of memory. */
__attribute__((visibility("default"))) int64_t
fedaudit_pooled_back(const float *maps, const float *weights, const float *slopes,
                     const uint8_t *places, int64_t images, int64_t height, int64_t width,
                     int64_t in, int64_t out, int64_t rectified, float *to_weights, float *to_bias,
                     float *to_maps)
{
    Sizes own = sizes_of(images, height, width, in, out), *is = &own;
    int64_t pixels = height * width, squares = is->tall * is->wide, taps = out * TAPS;
    int64_t bands = (is->tall + BAND - 1) / BAND, most = BAND * is->wide;
    int64_t *counts = malloc((size_t)(bands * out) * sizeof(int64_t));
    Reached *reached = malloc((size_t)(bands * out * most + 1) * sizeof(Reached));
    float *room = room_for(2 * in * (pixels + taps));
    int64_t status = counts && reached && room ? 0 : -1;
    float *taken = room, *made = taken + in * pixels, *held = made + in * pixels;
    float *sums = held + in * taps;
    if (!status) {
        apart(weights, taps, in, 0, held);
        memset(sums, 0, (size_t)(in * taps) * sizeof(float));
        memset(to_bias, 0, (size_t)out * sizeof(float));
    }
    for (int64_t b = 0; b < images && !status; b++) {
        const float *image = maps + b * pixels * in;
        apart(image, pixels, in, rectified, taken);
        memset(made, 0, (size_t)(in * pixels) * sizeof(float));
        for (int64_t o = 0; o < out; o++)
            for (int64_t n = 0; n < bands; n++) {
                int64_t y = n * BAND, rows = is->tall - y < BAND ? is->tall - y : BAND;
                int64_t at = (b * out + o) * squares + y * is->wide, list = n * out + o;
                counts[list] = list_band(slopes + at, places + at, rows, is, reached + list * most,
                                         to_bias + o);
            }
        for (int64_t i = 0; i < in; i += WIDE)
            for (int64_t n = 0; n < bands; n++) {
                int64_t first = i * pixels + n * BAND * 2 * width * WIDE;
                spread_all(reached + n * out * most, counts + n * out, taken + first,
                           held + i * taps, is, sums + i * taps, made + first);
            }
        together(made, pixels, in, to_maps + b * pixels * in);
        if (rectified)
            rectify(image, pixels * in, to_maps + b * pixels * in);
    }
    if (!status)
        together(sums, taps, in, to_weights);
    free(counts);
    free(reached);
    free(room);
    return status;
}
