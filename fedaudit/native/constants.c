/* The number that predicts the rows of one hypothesis best, as `_smallest` in Python. */

#include "kernels.h"

/* A sum in the order in which numpy takes it. */
static double sum_of(const double *values, int64_t size)
{
    if (size < 8) {
        double sum = 0.0;
        for (int64_t i = 0; i < size; i++)
            sum += values[i];
        return sum;
    }
    if (size > 128) {
        int64_t half = size / 2;
        half -= half % 8;
        return sum_of(values, half) + sum_of(values + half, size - half);
    }
    double part[8];
    for (int64_t j = 0; j < 8; j++)
        part[j] = values[j];
    int64_t i = 8;
    for (; i + 8 <= size; i += 8)
        for (int64_t j = 0; j < 8; j++)
            part[j] += values[i + j];
    double sum = ((part[0] + part[1]) + (part[2] + part[3])) +
                 ((part[4] + part[5]) + (part[6] + part[7]));
    for (; i < size; i++)
        sum += values[i];
    return sum;
}

typedef struct {
    const double *target, *fixed;
    const int64_t *client;
    const uint8_t *own;
    int64_t rows, clients;
    const int64_t *touched;
    int64_t touching;
    const double *counts, *weights;
    double total, *sums, *terms;
} Rows;

/* The loss of all clients where the hypothesis's rows are predicted as `number`. */
static double loss_at(const Rows *of, double number)
{
    for (int64_t t = 0; t < of->touching; t++)
        of->sums[of->touched[t]] = 0.0;
    for (int64_t r = 0; r < of->rows; r++) {
        double gap = of->target[r] - number;
        of->sums[of->client[r]] += of->own[r] ? gap * gap : of->fixed[r];
    }
    for (int64_t t = 0; t < of->touching; t++) {
        int64_t c = of->touched[t];
        of->terms[c] = sqrt(of->sums[c] / of->counts[c]) * of->weights[c];
    }
    return sum_of(of->terms, of->clients) / of->total;
}

/* Where that loss is smallest between two ends, by golden section: written to found[0].

   Rows [rows], in their order, are all those of the clients that the hypothesis has a row of, which
   are `touched`; of its `own` rows the loss is that of the number, of the others `fixed`. A
   client's loss is the root of the mean over its counts [clients], and weighs weights [clients], of
   which `total` is the sum. terms [clients] has the weighted losses of all others; it and sums
   [clients] are overwritten. */
KERNEL void fedaudit_best_number(const double *target, const double *fixed, const int64_t *client,
                                 const uint8_t *own, int64_t rows, const int64_t *touched,
                                 int64_t touching, const double *counts, const double *weights,
                                 double *terms, double *sums, int64_t clients, double total,
                                 double low, double high, double golden, int64_t steps,
                                 double *found)
{
    Rows of = {target, fixed, client, own, rows, clients, touched, touching,
               counts, weights, total, sums, terms};
    double left = high - golden * (high - low), right = low + golden * (high - low);
    double at_left = loss_at(&of, left), at_right = loss_at(&of, right);
    for (int64_t step = 0; step < steps; step++) {
        if (at_left <= at_right) {
            high = right;
            right = left;
            at_right = at_left;
            left = high - golden * (high - low);
            at_left = loss_at(&of, left);
        } else {
            low = left;
            left = right;
            at_left = at_right;
            right = low + golden * (high - low);
            at_right = loss_at(&of, right);
        }
    }
    *found = (low + high) / 2;
}
