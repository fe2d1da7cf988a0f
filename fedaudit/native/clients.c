/* What clients do with their own rows in training. Regression only: the
   exponentials and logarithms of classification have no result that all libraries share. */

#include "networks.h"

/* Room for one block of lanes; made anew for each call, which then needs no lock. */
typedef struct {
    Lanes lanes;
    Activations *between;              /* [layers] */
    float *theta;                      /* [k][parameters][LANES] */
    float *gradient;                   /* [parameters][LANES] */
    Activations slopes[2];             /* of a layer's outputs, and of its inputs */
    float products[MAX_ROWS * LANES];
} Room;

static void leave(Room *room)
{
    if (room == NULL)
        return;
    free(room->between);
    free(room->theta);
    free(room->gradient);
    free(room);
}

static Room *enter(const Network *net, int64_t k)
{
    Room *room = malloc(sizeof(Room));
    if (room == NULL)
        return NULL;
    room->between = malloc(net->layers * sizeof(Activations));
    room->theta = malloc(k * net->parameters * LANES * sizeof(float));
    room->gradient = malloc(net->parameters * LANES * sizeof(float));
    if (room->between && room->theta && room->gradient)
        return room;
    leave(room);
    return NULL;
}

/* The hypothesis with the smallest mean loss on each lane's rows. */
INLINE void choose(Room *room, const Network *net, int64_t k, int64_t rows, int64_t *chosen)
{
    float smallest[LANES] = {0}, which[LANES] = {0};
    for (int64_t j = 0; j < k; j++) {
        forward(net, room->theta + j * net->parameters * LANES, &room->lanes, room->between, rows);
        const float *outputs = room->between[net->layers - 1][0];
        for (int64_t at = 0; at < rows * LANES; at++) {
            float residual = outputs[at] - room->lanes.target[at];
            float value = residual * residual;
            room->products[at] = room->lanes.mask[at] > 0.0f ? value : 0.0f;
        }
        fold_float(room->products, rows);
        for (int64_t l = 0; l < LANES; l++) {
            float loss = without_nan_float(room->products[l]) / room->lanes.count[l];
            int taken = j == 0 || loss < smallest[l];
            smallest[l] = taken ? loss : smallest[l];
            which[l] = taken ? (float)j : which[l];
        }
    }
    for (int64_t l = 0; l < LANES; l++)
        chosen[l] = (int64_t)which[l];
}

/* The gradient of each lane's loss at its own parameters. */
INLINE void differentiate(Room *room, const Network *net, const float *theta, int64_t rows,
                          int64_t root_mean)
{
    Lanes *lanes = &room->lanes;
    forward(net, theta, lanes, room->between, rows);
    float *outputs = room->between[net->layers - 1][0];
    float(*slope)[MAX_ROWS * LANES] = room->slopes[0];
    float(*back)[MAX_ROWS * LANES] = room->slopes[1];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t l = 0; l < LANES; l++) {
            int64_t at = r * LANES + l;
            float residual = outputs[at] - lanes->target[at];
            room->products[at] = (residual * residual) * (lanes->mask[at] / lanes->count[l]);
            slope[0][at] = 2.0f * residual;
        }
    fold_float(room->products, rows);
    float factor[LANES];
    for (int64_t l = 0; l < LANES; l++) {
        float root = sqrtf(room->products[l]);
        float of_root = root > 0.0f ? 0.5f * (1.0f / root) : 0.0f;
        factor[l] = root_mean ? of_root : 1.0f;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t l = 0; l < LANES; l++) {
            int64_t at = r * LANES + l;
            slope[0][at] *= (lanes->mask[at] / lanes->count[l]) * factor[l];
        }
    int64_t end = net->parameters;
    for (int64_t layer = net->layers - 1; layer >= 0; layer--) {
        int64_t inputs = net->sizes[layer], outs = net->sizes[layer + 1];
        int64_t bias = end - (net->intercept ? outs : 0), start = bias - inputs * outs;
        float(*in)[MAX_ROWS * LANES] = inputs_of(layer, lanes, room->between);
        for (int64_t o = 0; o < outs; o++) {
            for (int64_t i = 0; i < inputs; i++) {
                for (int64_t at = 0; at < rows * LANES; at++)
                    room->products[at] = slope[o][at] * in[i][at];
                fold_float(room->products, rows);
                memcpy(room->gradient + (start + o * inputs + i) * LANES, room->products,
                       LANES * sizeof(float));
            }
            if (net->intercept) {
                memcpy(room->products, slope[o], rows * LANES * sizeof(float));
                fold_float(room->products, rows);
                memcpy(room->gradient + (bias + o) * LANES, room->products, LANES * sizeof(float));
            }
        }
        if (layer > 0) {
            for (int64_t i = 0; i < inputs; i++)
                for (int64_t r = 0; r < rows; r++) {
                    float terms[MAX_WIDTH * LANES];
                    for (int64_t o = 0; o < outs; o++)
                        for (int64_t l = 0; l < LANES; l++)
                            terms[o * LANES + l] =
                                theta[(start + o * inputs + i) * LANES + l] *
                                slope[o][r * LANES + l];
                    fold_float(terms, outs);
                    for (int64_t l = 0; l < LANES; l++) {
                        int64_t at = r * LANES + l;
                        back[i][at] = in[i][at] <= 0.0f ? 0.0f : terms[l];
                    }
                }
            float(*other)[MAX_ROWS * LANES] = slope;
            slope = back;
            back = other;
        }
        end = start;
    }
}

/* Choice of hypothesis and gradient descent: Algorithm 1, lines 5 and 6.

   theta [cells][k][parameters]; columns [cells][clients]. Writes chosen [cells][clients], start and
   updated [cells][clients][parameters]. Returns 0, or -1 without memory. */
KERNEL int64_t fedaudit_learn(int64_t layers, const int64_t *sizes, int64_t intercept,
                              int64_t parameters, const float *packed, const float *count,
                              int64_t stride, int64_t rows, const float *theta, int64_t k,
                              const int64_t *columns, int64_t cells, int64_t clients,
                              int64_t root_mean, int64_t steps, float step_size, int64_t *chosen,
                              float *start, float *updated)
{
    Network net = {layers, sizes, intercept, parameters};
    Clients from = {packed, count, stride, rows, sizes[0]};
    Room *room = enter(&net, k);
    if (room == NULL)
        return -1;
    for (int64_t first = 0; first < cells * clients; first += LANES) {
        int64_t used = cells * clients - first < LANES ? cells * clients - first : LANES;
        int64_t of[LANES], own[LANES] = {0};
        cells_of(of, first, used, clients);
        take_lanes(&room->lanes, &from, columns + first, used, rows);
        if (k > 1) {
            take_hypotheses(room->theta, theta, k * parameters, of);
            choose(room, &net, k, rows, own);
        }
        for (int64_t l = 0; l < LANES; l++)
            for (int64_t p = 0; p < parameters; p++)
                room->theta[p * LANES + l] = theta[(of[l] * k + own[l]) * parameters + p];
        for (int64_t l = 0; l < used; l++) {
            chosen[first + l] = own[l];
            for (int64_t p = 0; p < parameters; p++)
                start[(first + l) * parameters + p] = room->theta[p * LANES + l];
        }
        for (int64_t step = 0; step < steps; step++) {
            differentiate(room, &net, room->theta, rows, root_mean);
            for (int64_t at = 0; at < parameters * LANES; at++)
                room->theta[at] -= step_size * room->gradient[at];
        }
        for (int64_t l = 0; l < used; l++)
            for (int64_t p = 0; p < parameters; p++)
                updated[(first + l) * parameters + p] = room->theta[p * LANES + l];
    }
    leave(room);
    return 0;
}
