/* Validation by clients that took no part in training. Regression only, as in `clients.c`. */

#include "networks.h"

/* Room for one block of lanes; made anew for each call, which then needs no lock. */
typedef struct {
    Lanes lanes;
    Activations *between; /* [layers] */
    float *theta;         /* [k][parameters][LANES] */
    float *values;        /* [k][rows][LANES]: each row's loss under each hypothesis */
    float *outputs;       /* [k][rows][LANES]; only where predictions are asked for */
    double *sums;         /* [k][LANES] */
    /* Of the hypothesis that is best on a row's client's other rows. */
    double best[MAX_ROWS * LANES]; /* the loss of the others */
    double own[MAX_ROWS * LANES];  /* the row's own */
    float predicted[MAX_ROWS * LANES];
} Room;

static void leave(Room *room)
{
    if (room == NULL)
        return;
    free(room->between);
    free(room->theta);
    free(room->values);
    free(room->outputs);
    free(room->sums);
    free(room);
}

static Room *enter(const Network *net, int64_t k, int64_t rows)
{
    Room *room = malloc(sizeof(Room));
    if (room == NULL)
        return NULL;
    room->between = malloc(net->layers * sizeof(Activations));
    room->theta = malloc(k * net->parameters * LANES * sizeof(float));
    room->values = malloc(k * rows * LANES * sizeof(float));
    room->outputs = malloc(k * rows * LANES * sizeof(float));
    room->sums = malloc(k * LANES * sizeof(double));
    if (room->between && room->theta && room->values && room->outputs && room->sums)
        return room;
    leave(room);
    return NULL;
}

/* Sums of `size` rows by halves, of which only the first `real` are not 0: to add 0 to what is not
   negative changes no bit of it. */
INLINE void fold_real(double *values, int64_t size, int64_t real)
{
    while (size > 1) {
        int64_t half = size / 2, upper = real - half;
        for (int64_t i = 0; i < (upper < half ? upper : half) * LANES; i++)
            values[i] += values[i + half * LANES];
        if (upper > half)
            for (int64_t l = 0; l < LANES; l++)
                values[l] += values[(size - 1) * LANES + l];
        size = half;
        real = real < half ? real : half;
    }
}

/* Each row's loss under each hypothesis, and each client's sums of them in double precision. */
INLINE void measure(Room *room, const Network *net, int64_t k, int64_t rows, int64_t real,
                    int predicts)
{
    const float *restrict outputs = room->between[net->layers - 1][0];
    const float *restrict target = room->lanes.target, *restrict mask = room->lanes.mask;
    double *restrict sums = room->best;
    for (int64_t j = 0; j < k; j++) {
        float *restrict values = room->values + j * rows * LANES;
        forward(net, room->theta + j * net->parameters * LANES, &room->lanes, room->between, real);
        for (int64_t at = 0; at < real * LANES; at++) {
            float residual = outputs[at] - target[at];
            float value = residual * residual;
            value = mask[at] > 0.0f ? value : 0.0f;
            values[at] = value;
            sums[at] = (double)value;
        }
        if (predicts)
            memcpy(room->outputs + j * rows * LANES, outputs, real * LANES * sizeof(float));
        fold_real(sums, rows, real);
        for (int64_t l = 0; l < LANES; l++)
            room->sums[j * LANES + l] = without_nan(sums[l]);
    }
}

/* Each row's loss and prediction by the hypothesis that is best on its client's other rows. */
INLINE void take_best(Room *room, int64_t k, int64_t rows, int64_t real, int predicts)
{
    double *restrict best = room->best, *restrict own = room->own;
    for (int64_t j = 0; j < k; j++) {
        const double *restrict sums = room->sums + j * LANES;
        const float *restrict values = room->values + j * rows * LANES;
        const float *restrict outputs = room->outputs + j * rows * LANES;
        for (int64_t r = 0; r < real; r++) {
            float taken[LANES];
            for (int64_t l = 0; l < LANES; l++) {
                int64_t at = r * LANES + l;
                double value = (double)values[at];
                double others = without_nan(sums[l] - value);
                int takes = j == 0 || others < best[at];
                own[at] = takes ? value : own[at];
                best[at] = takes ? others : best[at];
                taken[l] = takes ? 1.0f : 0.0f;
            }
            if (predicts)
                replace(room->predicted + r * LANES, outputs + r * LANES, taken);
        }
    }
}

/* Clients with one row have no other to choose by: they take the largest cluster's hypothesis. */
INLINE void take_largest(Room *room, int64_t rows, const int64_t *largest, const int64_t *cells,
                         int predicts)
{
    for (int64_t l = 0; l < LANES; l++)
        if (room->lanes.count[l] == 1.0f) {
            int64_t at = largest[cells[l]] * rows * LANES + l;
            room->own[l] = (double)room->values[at];
            if (predicts)
                room->predicted[l] = room->outputs[at];
        }
}

/* The losses of clients: with the smallest hypothesis, and with the rows' own. */
INLINE void lose(Room *room, int64_t k, int64_t rows, int64_t real, int64_t root_mean,
                 double *smallest, double *of_own)
{
    /* Quotients and roots keep the order of numbers, so the smallest sum is the smallest loss. */
    for (int64_t l = 0; l < LANES; l++)
        smallest[l] = room->sums[l];
    for (int64_t j = 1; j < k; j++)
        for (int64_t l = 0; l < LANES; l++) {
            double sum = room->sums[j * LANES + l];
            smallest[l] = sum < smallest[l] ? sum : smallest[l];
        }
    fold_real(room->own, rows, real);
    for (int64_t l = 0; l < LANES; l++) {
        double count = (double)room->lanes.count[l];
        double one = smallest[l] / count, other = room->own[l] / count;
        smallest[l] = root_mean ? sqrt(one) : one;
        of_own[l] = root_mean ? sqrt(other) : other;
    }
    if (k == 1)
        memcpy(of_own, smallest, LANES * sizeof(double));
}

/* After how many cells the same clients come again, in the same order to the end. */
static int64_t period(const int64_t *columns, int64_t cells, int64_t clients)
{
    for (int64_t p = 1; p < cells; p++)
        if (cells % p == 0 && !memcmp(columns, columns + p * clients, clients * sizeof(int64_t)) &&
            !memcmp(columns, columns + p * clients, (cells - p) * clients * sizeof(int64_t)))
            return p;
    return cells;
}

/* Validation: every row is scored by the hypothesis that is best on its client's other rows.

   theta [cells][k][parameters]; columns [cells][clients]; largest [cells]: the hypothesis of clients
   with one row. Writes the losses of each client, with the smallest hypothesis and with the rows'
   own, [cells][clients]; their means [cells]; and predictions [cells][clients][rows], 0 on padding,
   unless they are NULL. Returns 0, or -1 without memory. */
KERNEL int64_t fedaudit_evaluate(int64_t layers, const int64_t *sizes, int64_t intercept,
                                 int64_t parameters, const float *packed, const float *count,
                                 int64_t stride, int64_t rows, const float *theta, int64_t k,
                                 const int64_t *columns, int64_t cells, int64_t clients,
                                 int64_t root_mean, const int64_t *largest, double *selection,
                                 double *validation, double *selection_mean,
                                 double *validation_mean, float *predictions)
{
    Network net = {layers, sizes, intercept, parameters};
    Clients from = {packed, count, stride, rows, sizes[0]};
    Room *room = enter(&net, k, rows);
    if (room == NULL)
        return -1;
    /* Rounds of the same cells score the same clients, whose rows are then laid out once. */
    int64_t distinct = period(columns, cells, clients);
    for (int64_t first = 0; first < distinct * clients; first += LANES) {
        int64_t left = distinct * clients - first, used = left < LANES ? left : LANES;
        int64_t real = longest_of(&from, columns + first, used);
        take_lanes(&room->lanes, &from, columns + first, used, real);
        for (int64_t turn = 0; turn < cells; turn += distinct) {
            int64_t of[LANES], start = turn * clients + first;
            double smallest[LANES], of_own[LANES];
            cells_of(of, start, used, clients);
            take_hypotheses(room->theta, theta, k * parameters, of);
            if (predictions) {
                measure(room, &net, k, rows, real, 1);
                take_best(room, k, rows, real, 1);
            } else {
                measure(room, &net, k, rows, real, 0);
                take_best(room, k, rows, real, 0);
            }
            if (k > 1)
                take_largest(room, rows, largest, of, predictions != NULL);
            if (predictions)
                for (int64_t l = 0; l < used; l++)
                    for (int64_t r = 0; r < rows; r++)
                        predictions[(start + l) * rows + r] =
                            r < real ? room->predicted[r * LANES + l] : 0.0f;
            lose(room, k, rows, real, root_mean, smallest, of_own);
            memcpy(selection + start, smallest, used * sizeof(double));
            memcpy(validation + start, of_own, used * sizeof(double));
        }
    }
    leave(room);
    for (int64_t c = 0; c < cells; c++) {
        fold_double(selection + c * clients, clients, 1);
        fold_double(validation + c * clients, clients, 1);
        selection_mean[c] = selection[c * clients] / (double)clients;
        validation_mean[c] = validation[c * clients] / (double)clients;
    }
    return 0;
}
