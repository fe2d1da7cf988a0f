/* What the kernels share.

   Every kernel but those of convolutions does the same IEEE operations in the same order as the torch
   or numpy code that it stands in for, so that both give the same bits. Two rules keep that so: the compiler may not
   contract a product and a sum into one rounding (-ffp-contract=off), nor reorder anything
   (no -ffast-math); and sums are taken by halves (`fold_*`, as `fixed_order_sum` in Python). */

#ifndef FEDAUDIT_KERNELS_H
#define FEDAUDIT_KERNELS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Clients are computed so many at a time; the innermost loops run over them. */
#define LANES 16
/* As _KERNEL_WIDTH and _KERNEL_ROWS of the engine, where the limits are explained. */
#define MAX_WIDTH 16
#define MAX_ROWS 64

#define INLINE static inline __attribute__((always_inline))

/* One copy of a kernel for each kind of vector instructions; which is taken changes no bit. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define EACH_PROCESSOR __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define EACH_PROCESSOR
#endif
#define KERNEL EACH_PROCESSOR __attribute__((visibility("default")))

/* Sums of rows [size][LANES] by halves, in place: the result is the first row. */
INLINE void fold_float(float *values, int64_t size)
{
    while (size > 1) {
        int64_t half = size / 2;
        for (int64_t i = 0; i < half * LANES; i++)
            values[i] += values[i + half * LANES];
        if (size % 2)
            for (int64_t l = 0; l < LANES; l++)
                values[l] += values[(size - 1) * LANES + l];
        size = half;
    }
}

INLINE void fold_double(double *values, int64_t size, int64_t width)
{
    while (size > 1) {
        int64_t half = size / 2;
        for (int64_t i = 0; i < half * width; i++)
            values[i] += values[i + half * width];
        if (size % 2)
            for (int64_t l = 0; l < width; l++)
                values[l] += values[(size - 1) * width + l];
        size = half;
    }
}

/* Infinity for NaN, which would otherwise be taken for the smallest loss. */
INLINE float without_nan_float(float value) { return value == value ? value : INFINITY; }
INLINE double without_nan(double value) { return value == value ? value : (double)INFINITY; }

#endif
