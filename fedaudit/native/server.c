/* What happens to updates on their way, and what the server makes of them. */

#include "kernels.h"

/* The Euclidean length of a difference, in double precision; `squares` has room for n numbers. */
INLINE double distance(const float *one, const float *other, int64_t n, double *squares)
{
    for (int64_t p = 0; p < n; p++) {
        double apart = (double)(one[p] - other[p]);
        squares[p] = apart * apart;
    }
    fold_double(squares, n, 1);
    return sqrt(squares[0]);
}

/* As torch's minimum and maximum: NaN if either is. */
INLINE double smaller(double a, double b) { return a != a || b != b ? NAN : a < b ? a : b; }
INLINE double larger(double a, double b) { return a != a || b != b ? NAN : a > b ? a : b; }

/* A number of an upload: see `Sanitiser.release`, also for why the start comes last. */
INLINE float released(float from, float to, double noise, double scale, double kept, double grid)
{
    double sum = noise * scale + (double)(to - from) * kept + (double)from;
    return (float)(rint(sum / grid) * grid);
}

/* Makes of a client's `updated` [n] what leaves it, in place. */
KERNEL void fedaudit_release(const float *start, const double *noise, int64_t n, double scale,
                             double kept, double grid, float *updated)
{
    for (int64_t p = 0; p < n; p++)
        updated[p] = released(start[p], updated[p], noise[p], scale, kept, grid);
}

/* SanitizeUpdate with one radius for the whole vector.

   start, updated [cells][clients][n], noise [cells][clients][width]; of each cell: its noise scale, fixed radius (NaN
   for an adaptive one), floor of the radius, clip (already shortened, if `clips`) and its bound,
   and the grid's spacing. Writes uploads [cells][clients][n], radii and whether an upload is
   finite [cells][clients]. Returns 0, or -1 without memory. */
KERNEL int64_t fedaudit_sanitise(const float *start, const float *updated, const double *noise,
                                 int64_t width, int64_t cells, int64_t clients, int64_t n,
                                 const double *noise_scale, const double *fixed_radius,
                                 const double *radius_floor, int64_t clips, const double *clip,
                                 const double *shortened_clip, const double *spacing,
                                 float *uploads, double *radii, uint8_t *finite)
{
    double *squares = malloc(n * sizeof(double));
    if (squares == NULL)
        return -1;
    for (int64_t at = 0; at < cells * clients; at++) {
        int64_t cell = at / clients;
        const float *from = start + at * n, *to = updated + at * n;
        const double *own_noise = noise + at * width;
        double norm = distance(to, from, n, squares), radius = norm, kept = 1.0;
        if (clips) {
            radius = smaller(norm, clip[cell]);
            kept = shortened_clip[cell] / norm;
            kept = kept > 1.0 ? 1.0 : kept;
        }
        radius = larger(radius, radius_floor[cell]);
        if (fixed_radius[cell] == fixed_radius[cell])
            radius = fixed_radius[cell];
        double scale = radius * noise_scale[cell], grid = spacing[cell];
        int all_finite = 1;
        for (int64_t p = 0; p < n; p++) {
            float upload = released(from[p], to[p], own_noise[p], scale, kept, grid);
            uploads[at * n + p] = upload;
            all_finite &= upload - upload == 0.0f;
        }
        radii[at] = radius;
        finite[at] = (uint8_t)all_finite;
    }
    free(squares);
    return 0;
}

/* One cell's uploads and what is known of them. */
typedef struct {
    const float *theta;   /* [k][n] */
    const float *uploads; /* [clients][n] */
    const float *columns; /* [blocks][n][LANES]: the same, LANES clients side by side */
    const uint8_t *present;
    int64_t clients, k, n;
    float *squares;  /* [n][LANES] */
    double *sums;    /* [k][n]; also room for n numbers */
    double *lengths; /* [clients] */
} Round;

/* The nearest centroid of each upload: by squares, of which a NaN is taken for the smallest. */
INLINE void find_nearest(const Round *of, const float *centroids, int64_t *nearest)
{
    for (int64_t first = 0; first < of->clients; first += LANES) {
        const float *block = of->columns + first * of->n;
        float smallest[LANES] = {0}, which[LANES] = {0};
        int64_t found[LANES];
        for (int64_t j = 0; j < of->k; j++) {
            for (int64_t p = 0; p < of->n; p++)
                for (int64_t l = 0; l < LANES; l++) {
                    float apart = block[p * LANES + l] - centroids[j * of->n + p];
                    of->squares[p * LANES + l] = apart * apart;
                }
            fold_float(of->squares, of->n);
            for (int64_t l = 0; l < LANES; l++) {
                float square = of->squares[l];
                int taken = j == 0 || square < smallest[l] ||
                            (square != square && smallest[l] == smallest[l]);
                smallest[l] = taken ? square : smallest[l];
                which[l] = taken ? (float)j : which[l];
            }
        }
        for (int64_t l = 0; l < LANES; l++)
            found[l] = (int64_t)which[l];
        int64_t left = of->clients - first;
        memcpy(nearest + first, found, (left < LANES ? left : LANES) * sizeof(int64_t));
    }
}

/* Unweighted averages in double precision, client after client; an empty cluster keeps theta. */
INLINE void average(const Round *of, const int64_t *assigned, float *hypotheses, int64_t *sizes)
{
    memset(of->sums, 0, of->k * of->n * sizeof(double));
    memset(sizes, 0, of->k * sizeof(int64_t));
    for (int64_t c = 0; c < of->clients; c++)
        if (of->present[c]) {
            double *sum = of->sums + assigned[c] * of->n;
            for (int64_t p = 0; p < of->n; p++)
                sum[p] += (double)of->uploads[c * of->n + p];
            sizes[assigned[c]]++;
        }
    for (int64_t j = 0; j < of->k; j++)
        for (int64_t p = 0; p < of->n; p++) {
            int64_t at = j * of->n + p;
            hypotheses[at] = sizes[j] ? (float)(of->sums[at] / (double)sizes[j]) : of->theta[at];
        }
}

/* Gives each empty cluster the upload that is farthest from its own centroid, in order. */
INLINE void relocate(const Round *of, const float *centroids, const int64_t *sizes,
                     int64_t *assigned)
{
    for (int64_t c = 0; c < of->clients; c++)
        of->lengths[c] = of->present[c]
                             ? distance(of->uploads + c * of->n, centroids + assigned[c] * of->n,
                                        of->n, of->sums)
                             : -1.0;
    for (int64_t j = 0; j < of->k; j++) {
        if (sizes[j])
            continue;
        int64_t farthest = 0;
        for (int64_t c = 1; c < of->clients; c++)
            if (of->lengths[c] > of->lengths[farthest])
                farthest = c;
        if (of->lengths[farthest] > 0.0) {
            assigned[farthest] = j;
            of->lengths[farthest] = -1.0;
        }
    }
}

INLINE int any_empty(const int64_t *sizes, int64_t k)
{
    for (int64_t j = 0; j < k; j++)
        if (!sizes[j])
            return 1;
    return 0;
}

/* Lloyd's iterations of one cell. `last` and `centroids` are room: [clients] and [k][n]. */
INLINE void cluster(const Round *of, int64_t relocates, int64_t iterations, float *hypotheses,
                    int64_t *assigned, int64_t *sizes, int64_t *last, float *centroids)
{
    int64_t bytes = of->clients * (int64_t)sizeof(int64_t);
    int64_t size = of->k * of->n * (int64_t)sizeof(float);
    memcpy(centroids, of->theta, size);
    find_nearest(of, centroids, last);
    for (int64_t i = 0; i < iterations; i++) {
        memcpy(assigned, last, bytes);
        average(of, assigned, hypotheses, sizes);
        if (relocates && any_empty(sizes, of->k)) {
            relocate(of, centroids, sizes, assigned);
            average(of, assigned, hypotheses, sizes);
        }
        memcpy(centroids, hypotheses, size);
        /* Compared with the assignment before uploads were relocated, as in `k_means`. */
        int64_t moved = 0;
        int64_t *nearest = (int64_t *)of->lengths;
        find_nearest(of, centroids, nearest);
        for (int64_t c = 0; c < of->clients; c++)
            moved |= nearest[c] != last[c];
        if (!moved)
            break;
        memcpy(last, nearest, bytes);
    }
}

/* Clusters (with `iterations` > 0) or averages by the clusters in `assigned`, cell by cell.

   theta [cells][k][n], uploads [cells][clients][n], present and assigned [cells][clients]. Writes
   hypotheses [cells][k][n], assigned and sizes [cells][k]. Returns 0, or -1 without memory. */
KERNEL int64_t fedaudit_cluster(const float *theta, const float *uploads, const uint8_t *present,
                                int64_t cells, int64_t clients, int64_t k, int64_t n,
                                int64_t relocates, int64_t iterations, float *hypotheses,
                                int64_t *assigned, int64_t *sizes)
{
    int64_t blocks = (clients + LANES - 1) / LANES;
    float *columns = calloc(blocks * n * LANES, sizeof(float));
    float *squares = malloc(n * LANES * sizeof(float));
    double *sums = malloc(k * n * sizeof(double));
    double *lengths = malloc(clients * sizeof(double));
    int64_t *last = malloc(clients * sizeof(int64_t));
    float *centroids = malloc(k * n * sizeof(float));
    int64_t done = -1;
    if (columns && squares && sums && lengths && last && centroids) {
        for (int64_t c = 0; c < cells; c++) {
            const float *own = uploads + c * clients * n;
            Round of = {theta + c * k * n, own,  columns, present + c * clients, clients, k, n,
                        squares,           sums, lengths};
            if (iterations) {
                for (int64_t at = 0; at < clients; at++)
                    for (int64_t p = 0; p < n; p++)
                        columns[(at / LANES * n + p) * LANES + at % LANES] = own[at * n + p];
                cluster(&of, relocates, iterations, hypotheses + c * k * n,
                        assigned + c * clients, sizes + c * k, last, centroids);
            } else {
                average(&of, assigned + c * clients, hypotheses + c * k * n, sizes + c * k);
            }
        }
        done = 0;
    }
    free(columns);
    free(squares);
    free(sums);
    free(lengths);
    free(last);
    free(centroids);
    return done;
}

/* The number that would stand at `place` if the values were in order; moves them. */
INLINE double in_order(double *values, int64_t size, int64_t place)
{
    int64_t low = 0, high = size - 1;
    while (low < high) {
        double pivot = values[(low + high) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i <= j) {
                double moved = values[i];
                values[i++] = values[j];
                values[j--] = moved;
            }
        }
        if (place <= j)
            high = j;
        else if (place >= i)
            low = i;
        else
            break;
    }
    return values[place];
}

/* How well clusters are separated, as `separation` in Python: writes [cells]. */
KERNEL int64_t fedaudit_separation(const float *theta, const float *uploads,
                                   const uint8_t *present, const int64_t *assigned, int64_t cells,
                                   int64_t clients, int64_t k, int64_t n, double *separations)
{
    double *squares = malloc(n * sizeof(double));
    double *nearest = malloc(k * sizeof(double));
    double *ratios = malloc(clients * sizeof(double));
    int64_t done = -1;
    if (squares && nearest && ratios) {
        for (int64_t c = 0; c < cells; c++) {
            const float *own = theta + c * k * n;
            for (int64_t i = 0; i < k; i++) {
                nearest[i] = INFINITY;
                for (int64_t j = 0; j < k; j++)
                    if (j != i)
                        nearest[i] = smaller(
                            nearest[i], distance(own + i * n, own + j * n, n, squares));
            }
            int64_t found = 0;
            for (int64_t at = c * clients; at < (c + 1) * clients; at++)
                if (present[at]) {
                    const float *mine = own + assigned[at] * n;
                    double ratio =
                        distance(uploads + at * n, mine, n, squares) / nearest[assigned[at]];
                    if (ratio == ratio)
                        ratios[found++] = ratio;
                }
            separations[c] = found ? in_order(ratios, found, (found - 1) / 2) : NAN;
        }
        done = 0;
    }
    free(squares);
    free(nearest);
    free(ratios);
    return done;
}
