/* Sums over clients that are drawn again or exchanged between groups, and rounds that drew nearly
   the same of them. Losses are added client by client, as numpy's bincount adds them; all else is
   whole numbers, whose order does not matter. */

#include "kernels.h"

/* How often each of `population` is drawn: word w draws number w * population / 2^32.

   words [rows][stride], of each row the first `count`. Adds to found [rows][population]. */
KERNEL void fedaudit_tally(const uint32_t *words, int64_t rows, int64_t stride, int64_t count,
                           uint64_t population, double *found)
{
    for (int64_t row = 0; row < rows; row++, words += stride, found += population)
        for (int64_t i = 0; i < count; i++)
            found[words[i] * population >> 32] += 1.0;
}

/* Adds to found [rows][width] what the entries come to: entry i counts value[i] for place[i] each
   time that client[i] is drawn; times [rows][clients]. */
KERNEL void fedaudit_pool(const double *times, int64_t rows, int64_t clients,
                          const int64_t *client, const int64_t *place, const double *value,
                          int64_t entries, int64_t width, double *found)
{
    for (int64_t row = 0; row < rows; row++, times += clients, found += width)
        for (int64_t i = 0; i < entries; i++)
            found[place[i]] += times[client[i]] * value[i];
}

/* Adds each client's numbers to its group's: group [rows][clients], own [clients][kinds], found
   [rows][groups][kinds]. */
KERNEL void fedaudit_regroup(const int64_t *group, int64_t rows, int64_t clients, const double *own,
                             int64_t kinds, int64_t groups, double *found)
{
    for (int64_t row = 0; row < rows; row++, group += clients, found += groups * kinds)
        for (int64_t c = 0; c < clients; c++)
            for (int64_t k = 0; k < kinds; k++)
                found[group[c] * kinds + k] += own[c * kinds + k];
}

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
    int32_t *weight = room, *number = room + most, *apart = room + 2 * most;
    int32_t *clients = room + 3 * most;
    memset(room, 0, 2 * most * sizeof *room);
    for (int64_t m = 0; m < count; m++) {
        const uint8_t *one = earlier + members[m] * capacity;
        for (int64_t e = 0; e < most; e++) {
            weight[e] += one[e] ? rows[m] : 0;
            number[e] += one[e];
        }
    }
    int64_t large = 0;
    for (int64_t e = 0; e < most; e++) {
        weight[e] = weight[e] >= least_rows && number[e] >= least_clients;
        large += weight[e];
    }
    if (!large)
        return;
    for (int64_t a = 0; a < asked; a++) {
        if (near[a])
            continue;
        memset(apart, 0, 2 * most * sizeof *room);
        for (int64_t m = 0; m < count; m++) {
            const uint8_t *one = earlier + members[m] * capacity;
            uint8_t own = drawn[a * stride + members[m]];
            for (int64_t e = 0; e < before[a]; e++) {
                apart[e] += one[e] != own ? rows[m] : 0;
                clients[e] += one[e] != own;
            }
        }
        int32_t any = 0;
        for (int64_t e = 0; e < before[a]; e++)
            any |= weight[e] & (apart[e] > 0) &
                   ((apart[e] < least_rows) | (clients[e] < least_clients));
        near[a] = (uint8_t)any;
    }
}
