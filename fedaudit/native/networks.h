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

/* The rows of the longest of some clients. */
INLINE int64_t longest_of(const Clients *from, const int64_t *columns, int64_t used)
{
    int64_t longest = 1;
    for (int64_t l = 0; l < used; l++) {
        int64_t own = (int64_t)from->count[columns[l]];
        longest = own > longest ? own : longest;
    }
    return longest;
}

/* Lays out the first `rows` rows of clients. Lanes beyond the last client repeat it, and their
   results are left out. */
INLINE void take_lanes(Lanes *lanes, const Clients *from, const int64_t *columns, int64_t used,
                       int64_t rows)
{
    const float *own[LANES];
    for (int64_t l = 0; l < LANES; l++) {
        int64_t column = columns[l < used ? l : used - 1];
        own[l] = from->packed + column * (from->features + 2) * from->stride;
        lanes->count[l] = from->count[column];
    }
    for (int64_t f = 0; f < from->features + 2; f++) {
        int64_t behind = f - from->features;
        float *to = behind < 0 ? lanes->features[f] : behind ? lanes->mask : lanes->target;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t l = 0; l < LANES; l++)
                to[r * LANES + l] = own[l][f * from->stride + r];
    }
}

/* The cells of the lanes from client `first` on, of `clients` in each cell. */
INLINE void cells_of(int64_t *cells, int64_t first, int64_t used, int64_t clients)
{
    int64_t cell = first / clients, left = clients - first % clients;
    for (int64_t l = 0; l < LANES; l++, left--) {
        if (left == 0 && l < used) {
            cell++;
            left = clients;
        }
        cells[l] = cell;
    }
}

/* Each lane's hypotheses, from theta [cells][k][parameters]: [k][parameters][LANES]. */
INLINE void take_hypotheses(float *own, const float *theta, int64_t size, const int64_t *cells)
{
    const float *from = theta + cells[0] * size;
    if (cells[0] == cells[LANES - 1])
        for (int64_t p = 0; p < size; p++)
            for (int64_t l = 0; l < LANES; l++)
                own[p * LANES + l] = from[p];
    else
        for (int64_t p = 0; p < size; p++)
            for (int64_t l = 0; l < LANES; l++)
                own[p * LANES + l] = theta[cells[l] * size + p];
}

/* A number of each lane. By this type compilers keep a sum out of memory between its terms. */
typedef float Side __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
typedef int32_t Bits __attribute__((vector_size(sizeof(Side)), aligned(4), may_alias));
#define side(values) (*(const Side *)(values))

/* The new numbers where `taken` is above 0. */
INLINE void replace(float *numbers, const float *other, const float *taken)
{
    Bits where = side(taken) > 0.0f, *kept = (Bits *)numbers;
    *kept = (*(const Bits *)other & where) | (*kept & ~where);
}

/* The inputs of each layer behind the first, then the outputs: [units][rows][LANES]. */
typedef float Activations[MAX_WIDTH][MAX_ROWS * LANES];

/* Where a layer's inputs lie. */
INLINE float (*inputs_of(int64_t layer, Lanes *lanes, Activations *between))[MAX_ROWS * LANES]
{
    return layer == 0 ? lanes->features : between[layer - 1];
}

/* Fills `between` for parameters theta [parameters][LANES]; the last holds the outputs. Padding has
   0: times 0, it would be no number where the model overflows on it. */
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
                const int64_t at = r * LANES;
                Side sum = side(weights) * side(in[0] + at);
                if (net->intercept)
                    sum += side(bias + o * LANES);
                for (int64_t i = 1; i < inputs; i++)
                    sum += side(weights + i * LANES) * side(in[i] + at);
                *(Bits *)(between[layer][o] + at) = (Bits)sum & (side(lanes->mask + at) > 0.0f);
            }
        }
        theta += (inputs + (net->intercept != 0)) * outputs * LANES;
    }
}

#endif
