/* Small dense networks for LANES clients at a time, as `networks/small_dense.py` writes them out. */

#ifndef FEDAUDIT_NETWORKS_H
#define FEDAUDIT_NETWORKS_H

#include "kernels.h"

typedef struct {
    int64_t layers;
    const int64_t *sizes; /* inputs, hidden units, outputs: layers + 1 numbers */
    int64_t intercept;
    int64_t parameters;
} Network;

/* Rows of clients, padded; client by client, with features, target and mask one after the other. */
typedef struct {
    const float *packed; /* [all clients][features + 2][stride] */
    const float *count;  /* [all clients] */
    int64_t stride;      /* rows held for each client */
    int64_t rows;        /* rows computed: those of the longest client taken, or more */
    int64_t features;
} Clients;

/* LANES clients' rows side by side, [rows][LANES] each. */
typedef struct {
    float features[MAX_WIDTH][MAX_ROWS * LANES];
    float target[MAX_ROWS * LANES];
    float mask[MAX_ROWS * LANES];
    float count[LANES];
} Lanes;

INLINE void take_lanes(Lanes *lanes, const Clients *from, const int64_t *columns, int64_t used)
{
    for (int64_t l = 0; l < LANES; l++) {
        /* Lanes beyond the last client repeat it, and their results are left out. */
        int64_t column = columns[l < used ? l : used - 1];
        const float *own = from->packed + column * (from->features + 2) * from->stride;
        for (int64_t f = 0; f < from->features; f++, own += from->stride)
            for (int64_t r = 0; r < from->rows; r++)
                lanes->features[f][r * LANES + l] = own[r];
        for (int64_t r = 0; r < from->rows; r++) {
            lanes->target[r * LANES + l] = own[r];
            lanes->mask[r * LANES + l] = own[from->stride + r];
        }
        lanes->count[l] = from->count[column];
    }
}

/* The inputs of each layer behind the first, then the outputs: [units][rows][LANES]. */
typedef float Activations[MAX_WIDTH][MAX_ROWS * LANES];

/* Where a layer's inputs lie. */
INLINE float (*inputs_of(int64_t layer, Lanes *lanes, Activations *between))[MAX_ROWS * LANES]
{
    return layer == 0 ? lanes->features : between[layer - 1];
}

/* Fills `between` for parameters theta [parameters][LANES]; the last holds the outputs. */
INLINE void forward(const Network *net, const float *theta, Lanes *lanes, Activations *between,
                    int64_t rows)
{
    for (int64_t layer = 0; layer < net->layers; layer++) {
        int64_t inputs = net->sizes[layer], outputs = net->sizes[layer + 1];
        float(*in)[MAX_ROWS * LANES] = inputs_of(layer, lanes, between);
        if (layer > 0)
            for (int64_t i = 0; i < inputs; i++)
                for (int64_t at = 0; at < rows * LANES; at++)
                    in[i][at] = in[i][at] < 0.0f ? 0.0f : in[i][at];
        const float *bias = theta + inputs * outputs * LANES;
        for (int64_t o = 0; o < outputs; o++) {
            const float *weights = theta + o * inputs * LANES;
            for (int64_t r = 0; r < rows; r++) {
                float sum[LANES];
                for (int64_t l = 0; l < LANES; l++)
                    sum[l] = weights[l] * in[0][r * LANES + l];
                if (net->intercept)
                    for (int64_t l = 0; l < LANES; l++)
                        sum[l] += bias[o * LANES + l];
                for (int64_t i = 1; i < inputs; i++)
                    for (int64_t l = 0; l < LANES; l++)
                        sum[l] += weights[i * LANES + l] * in[i][r * LANES + l];
                for (int64_t l = 0; l < LANES; l++)
                    between[layer][o][r * LANES + l] = sum[l];
            }
        }
        theta += (inputs + (net->intercept != 0)) * outputs * LANES;
    }
}

#endif
