/* projection.c: y = x W + b by GEMM; what overflows on the way is summed again without limits of range. */
#include "projection.h"
#include "engine/ops.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <string.h>

/* A block is one product. Its size is part of the answer's bits where OpenBLAS computes it, so it is a constant: big
 * enough to come near the peak (inner x 128 numbers of the weight are packed for 2 x 512 x 128 x inner operations: with
 * the sides the other way /mha of width 768 took up to 1.14 times as long), small enough that one row times a wide
 * weight, or many rows times a narrow one, still fills several threads. */
enum { BLOCK_ROWS = 512, BLOCK_COLUMNS = 128 };

static real weight_at(const attn_weight *w, size_t in, size_t out) {
    const real *data = w->data;
    return w->out_in ? data[out * w->stride + in] : data[in * w->stride + out];
}

static bool stopped(const atomic_bool *cancel) { return cancel && atomic_load_explicit(cancel, memory_order_relaxed); }

/* sum + lost = the old sum + x, but for rounding of the second order (Neumaier's form of Kahan's sum) */
static void add(double *sum, double *lost, double x) {
    const double total = *sum + x;
    *lost += fabs(*sum) >= fabs(x) ? (*sum - total) + x : (x - total) + *sum;
    *sum = total;
}

/* x . w[:, column] + bias in double, each term as fraction and exponent and the sum taken relative to the greatest
 * exponent: products beyond the range of double are no obstacle, and a term that vanishes beside the greatest is below
 * 2^-1000 of it. Powers of two are exact, and the roundings of products and sums are summed beside them: the error is
 * the final rounding's and some t 2^-100 sum |terms|. Infinite only where the true sum does not fit. */
static real exact_dot(const attn_projection *p, const real *x, size_t column) {
    int top = INT_MIN, ex, ew;
    const double bias = p->bias ? (double)((const real *)p->bias)[column] : 0;
    if (bias != 0) (void)frexp(bias, &top);
    for (size_t t = 0; t < p->inner; t++) {
        const double w = (double)weight_at(&p->weight, t, column);
        if (x[t] == 0 || w == 0) continue;
        (void)frexp((double)x[t], &ex);
        (void)frexp(w, &ew);
        if (ex + ew > top) top = ex + ew;
    }
    if (top == INT_MIN) return 0;
    double sum = ldexp(bias, -top), lost = 0;
    for (size_t t = 0; t < p->inner; t++) {
        const double fx = frexp((double)x[t], &ex), fw = frexp((double)weight_at(&p->weight, t, column), &ew);
        const double product = fx * fw, rest = fma(fx, fw, -product);
        add(&sum, &lost, ldexp(product, ex + ew - top));
        add(&sum, &lost, ldexp(rest, ex + ew - top));
    }
    return (real)ldexp(sum + lost, top);
}

/* What the GEMM of a block left infinite or NaN is summed again. Rows are looked at by the kernel's vectors: number by
 * number that took 4 % of /mha. */
static bool repair(const attn_kernel *kernel, const attn_projection *p, size_t row, size_t rows, size_t column,
                   size_t columns, const atomic_bool *cancel) {
    real most[BLOCK_ROWS];
    ATTN_T(attn_ops_of)
    (kernel)->magnitudes(rows, columns, (const real *)p->y + row * p->columns + column, p->columns, most);
    bool spilled = false;
    for (size_t i = row; i < row + rows; i++) {
        const real *x = (const real *)p->x + i * p->inner;
        real *y = (real *)p->y + i * p->columns;
        if (isfinite(most[i - row])) continue;
        if (stopped(cancel)) return spilled;
        for (size_t o = column; o < column + columns; o++) {
            if (isfinite(y[o])) continue;
            y[o] = exact_dot(p, x, o);
            spilled |= !isfinite(y[o]);
        }
    }
    return spilled;
}

static void project_block(const attn_kernel *kernel, attn_projection *p, size_t row, size_t column,
                          const atomic_bool *cancel) {
    const size_t rows = p->rows - row < BLOCK_ROWS ? p->rows - row : BLOCK_ROWS;
    const size_t columns = p->columns - column < BLOCK_COLUMNS ? p->columns - column : BLOCK_COLUMNS;
    const real *x = (const real *)p->x + row * p->inner;
    real *y = (real *)p->y + row * p->columns + column;
    if (p->bias)
        for (size_t i = 0; i < rows; i++)
            memcpy(y + i * p->columns, (const real *)p->bias + column, columns * sizeof(real));
    const real *w = (const real *)p->weight.data + column * (p->weight.out_in ? p->weight.stride : 1);
    ATTN_T(attn_ops_of)
    (kernel)->multiply(rows, columns, p->inner, x, p->inner, w, p->weight.stride, p->weight.out_in, p->bias != NULL, y,
                       p->columns);
    if (repair(kernel, p, row, rows, column, columns, cancel)) atomic_store(&p->spilled, true);
}

static size_t blocks(size_t size, size_t block) { return size / block + (size % block != 0); }

typedef struct project_job {
    attn_projection *projections;
    size_t count;
    const attn_kernel *kernel;
    const atomic_bool *cancel;
} project_job;

/* Items are the blocks of the first projection row by row, then those of the next. */
static void project_item(void *arg, size_t item, size_t slot) {
    (void)slot;
    const project_job *job = arg;
    if (stopped(job->cancel)) return;
    for (size_t i = 0; i < job->count; i++) {
        attn_projection *p = &job->projections[i];
        const size_t across = blocks(p->columns, BLOCK_COLUMNS), here = blocks(p->rows, BLOCK_ROWS) * across;
        if (item < here) {
            project_block(job->kernel, p, item / across * BLOCK_ROWS, item % across * BLOCK_COLUMNS, job->cancel);
            return;
        }
        item -= here;
    }
}

void ATTN_T(attn_project)(const attn_engine *engine, attn_projection *projections, size_t count,
                          const atomic_bool *cancel) {
    assert(count <= ATTN_PROJECTIONS);
    project_job job = {projections, count, engine->kernel, cancel};
    size_t items = 0;
    for (size_t i = 0; i < count; i++) {
        atomic_store(&projections[i].spilled, false);
        items += blocks(projections[i].rows, BLOCK_ROWS) * blocks(projections[i].columns, BLOCK_COLUMNS);
    }
    attn_pool_for(engine->pool, items, project_item, &job);
}

size_t ATTN_T(attn_find_not_finite)(size_t from, size_t rows, size_t columns, size_t stride, const void *block) {
    const real *numbers = block;
    for (size_t i = from; i < rows * columns; i++)
        if (!isfinite(numbers[i / columns * stride + i % columns])) return i;
    return rows * columns;
}

bool ATTN_T(attn_mask_heads)(size_t rows, size_t n_heads, size_t d, const void *mask, void *heads) {
    const real *factor = mask;
    real *y = heads;
    bool spilled = false;
    for (size_t i = 0; i < rows * n_heads; i++)
        for (size_t c = 0; c < d; c++) {
            y[i * d + c] *= factor[i % n_heads];
            spilled |= !isfinite(y[i * d + c]);
        }
    return spilled;
}
