/* Whether this library was compiled as it has to be. */

#include "kernels.h"

/* Raised with every change to the arguments or the results of a kernel, as in `library.py`. */
KERNEL int64_t fedaudit_interface(void) { return 7; }

/* By itself, so that the compiler cannot see that its products are wanted elsewhere. */
KERNEL __attribute__((noinline)) void fedaudit_squares_less(const float *values, float *found)
{
    for (int64_t l = 0; l < LANES; l++)
        found[l] = values[l] * values[l] - values[l];
}

/* 1 where a product and a sum are rounded one after the other, sums keep their order, and a NaN is
   one: what -ffp-contract=off gives, and what -ffast-math in somebody's CFLAGS takes away. */
KERNEL int64_t fedaudit_sound(void)
{
    volatile float third = 1.0f / 3.0f, small = 0x1p-30f, zero = 0.0f;
    float products[LANES], sums[LANES];
    int64_t sound = 1;
    for (int64_t l = 0; l < LANES; l++)
        products[l] = third + (float)l;
    fedaudit_squares_less(products, sums);
    for (int64_t l = 0; l < LANES; l++) {
        volatile float product = products[l] * products[l];
        volatile float sum = product - products[l];
        sound &= sums[l] == sum;
    }
    float one = 1.0f, little = small;
    sound &= (one + little) - one == 0.0f;
    float nan = zero / zero;
    sound &= !(nan == nan);
    return sound;
}
