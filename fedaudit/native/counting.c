/* True and false positives and negatives by group: integers, so the order does not matter. */

#include "kernels.h"

/* Adds every client's rows to the counts of its cell.

   predictions [cells][clients][rows]; columns [cells][clients] of clients whose rows begin at
   `first` and number `count`, [all clients]; places [attributes][all rows] and bounds [2][all
   rows] as in `GroupCounter`, `all` of them in a line. `found`, zero at first, lies attribute after
   attribute, [cells][sizes[attribute]] each. */
KERNEL void fedaudit_count(const float *predictions, const int64_t *columns, int64_t cells,
                           int64_t clients, int64_t rows, const int64_t *first,
                           const int64_t *count, const int16_t *places, const double *bounds,
                           int64_t all, int64_t attributes, const int64_t *sizes, int64_t *found)
{
    for (int64_t at = 0; at < cells * clients; at++) {
        int64_t cell = at / clients, start = first[columns[at]], own = count[columns[at]];
        for (int64_t r = 0; r < own; r++) {
            double factor = bounds[start + r], bound = bounds[all + start + r];
            int64_t favourable = (double)predictions[at * rows + r] * factor >= bound;
            int64_t *counts = found;
            for (int64_t a = 0; a < attributes; a++) {
                counts[cell * sizes[a] + places[a * all + start + r] + favourable]++;
                counts += cells * sizes[a];
            }
        }
    }
}
