#include "rms_norm.h"

#include <math.h>

#include "engine/ops.h"

enum { BLOCK = 64 }; /* rows of an item */

typedef struct norm_run {
    size_t rows, d;
    const real *weight;
    double eps, factor;
    real *x;
    atomic_bool spilled;
} norm_run;

/* sqrt(mean(x^2) + eps); the numbers are divided by the greatest, so that no square leaves the range */
static double root_mean_square(size_t d, const real *x, double eps) {
    double most = 0, sum = 0;
    for (size_t c = 0; c < d; c++) most = fmax(most, fabs((double)x[c]));
    if (most > 0x1p-500 && most < 0x1p500) {
        for (size_t c = 0; c < d; c++) sum += (double)x[c] * (double)x[c];
        return sqrt(sum / (double)d + eps);
    }
    if (most == 0) return sqrt(eps);
    for (size_t c = 0; c < d; c++) sum += ((double)x[c] / most) * ((double)x[c] / most);
    return hypot(most * sqrt(sum / (double)d), sqrt(eps));
}

static void norm_item(void *arg, size_t item, size_t slot) {
    norm_run *run = arg;
    const size_t last = (item + 1) * BLOCK < run->rows ? (item + 1) * BLOCK : run->rows;
    bool finite = true;
    (void)slot;
    for (size_t r = item * BLOCK; r < last; r++) {
        real *x = run->x + r * run->d;
        const double root = root_mean_square(run->d, x, run->eps);
        for (size_t c = 0; c < run->d && root > 0; c++) {
            x[c] = (real)((double)x[c] / root * (double)run->weight[c] * run->factor);
            finite &= isfinite(x[c]) != 0;
        }
    }
    if (!finite) atomic_store_explicit(&run->spilled, true, memory_order_relaxed);
}

bool ATTN_T(attn_rms_norm)(const attn_engine *engine, size_t rows, size_t d, const void *weight, double eps,
                           double factor, void *x) {
    norm_run run = {.rows = rows, .d = d, .weight = weight, .eps = eps, .factor = factor, .x = x};
    attn_pool_for(engine->pool, rows / BLOCK + (rows % BLOCK != 0), norm_item, &run);
    return atomic_load(&run.spilled);
}
