/* Which rounds drew nearly the same of a group as an earlier one. */

#include "kernels.h"

/* Which rounds drew nearly the same of a group as an earlier one that drew many of it, as `_near`.

   The group's `members` weigh `rows` each. Who is drawn: in the rounds asked about, drawn
   [asked][stride]; in the earlier ones, earlier [all clients][capacity], of which the first
   before[a] are earlier than round a; `most` is the largest of them. `least` rows and clients are
   many. Sets near[a] to 1, where it was 0 and some round is; `room` is [4][most]. */
KERNEL void fedaudit_near(const uint8_t *drawn, int64_t asked, int64_t stride,
                          const uint8_t *earlier, int64_t capacity, const int64_t *before,
                          int64_t most, const int64_t *members, const int32_t *rows, int64_t count,
                          int32_t least_rows, int32_t least_clients, int32_t *room, uint8_t *near)
{
    int32_t *restrict weight = room, *restrict number = room + most;
    int32_t *restrict both = room + 2 * most, *restrict clients = room + 3 * most;
    memset(room, 0, 2 * most * sizeof *room);
    for (int64_t m = 0; m < count; m++) {
        const uint8_t *restrict one = earlier + members[m] * capacity;
        int32_t own = rows[m];
        for (int64_t e = 0; e < most; e++) {
            weight[e] += own * one[e];
            number[e] += one[e];
        }
    }
    int32_t any_large = 0;
    for (int64_t e = 0; e < most; e++)
        any_large |= (weight[e] >= least_rows) & (number[e] >= least_clients);
    if (!any_large)
        return;
    for (int64_t a = 0; a < asked; a++) {
        if (near[a])
            continue;
        int64_t until = before[a];
        int32_t own_weight = 0, own_number = 0, any = 0;
        memset(both, 0, 2 * most * sizeof *room);
        for (int64_t m = 0; m < count; m++) {
            if (!drawn[a * stride + members[m]])
                continue;
            const uint8_t *restrict one = earlier + members[m] * capacity;
            int32_t own = rows[m];
            own_weight += own;
            own_number++;
            for (int64_t e = 0; e < until; e++) {
                both[e] += own * one[e];
                clients[e] += one[e];
            }
        }
        for (int64_t e = 0; e < until; e++) {
            /* What either has, less what both have. */
            int32_t apart = own_weight + weight[e] - 2 * both[e];
            int32_t people = own_number + number[e] - 2 * clients[e];
            any |= (weight[e] >= least_rows) & (number[e] >= least_clients) & (apart > 0) &
                   ((apart < least_rows) | (people < least_clients));
        }
        near[a] = (uint8_t)any;
    }
}
