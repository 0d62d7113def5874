/* kernel_checks.h: the checks of one kernel row for one number type; test_kernels.c includes it for float and for
 * double, with REAL, OPS (the row's type), UNIT (half the type's epsilon: the relative error of one rounding) and
 * T(name) defined.
 *
 * Every buffer is allocated at its exact size, so that AddressSanitizer sees a read or write one element too far.
 * Sums of t terms may be done in any order, with or without fused multiply-add: their error is within
 * t * UNIT * sum of |terms| to first order (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2);
 * (t + 1) covers the second order at these sizes. */

static REAL *T(buffer)(size_t count) {
    REAL *numbers = calloc(count ? count : 1, sizeof *numbers);
    if (!numbers) abort();
    for (size_t i = 0; i < count; i++) numbers[i] = (REAL)check_random_normal();
    return numbers;
}

static REAL *T(aligned_buffer)(size_t count) {
    REAL *numbers = aligned_alloc(64, (count * sizeof *numbers + 63) / 64 * 64);
    if (!numbers) abort();
    for (size_t i = 0; i < count; i++) numbers[i] = (REAL)NAN; /* makes unwritten elements visible */
    return numbers;
}

/* Packs n keys and multiplies them by q: against plain loops in double. */
static void T(check_scores)(const char *row, const OPS *ops, size_t rows, size_t n, size_t d, size_t gap) {
    const size_t stride = d + gap;
    REAL *q = T(buffer)((rows - 1) * stride + d), *k = T(buffer)(n ? (n - 1) * stride + d : 0);
    REAL *packed = T(aligned_buffer)(ops->tile_k * d), *s = T(aligned_buffer)(rows * ops->tile_k);
    const REAL greatest = ops->pack_keys(n, d, k, stride, packed);
    REAL expected_greatest = 0;
    for (size_t j = 0; j < n; j++)
        for (size_t c = 0; c < d; c++)
            if (fabs((double)k[j * stride + c]) > (double)expected_greatest)
                expected_greatest = (REAL)fabs((double)k[j * stride + c]);
    CHECK(greatest == expected_greatest, "%s: greatest key %g, expected %g", row, (double)greatest,
          (double)expected_greatest);
    ops->scores(rows, 0, ops->tile_k, d, q, stride, packed, s);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < ops->tile_k; j++) {
            long double sum = 0, size = 0;
            for (size_t c = 0; j < n && c < d; c++) {
                const long double term = (long double)q[i * stride + c] * (long double)k[j * stride + c];
                sum += term;
                size += fabsl(term);
            }
            const REAL got = s[i * ops->tile_k + j];
            CHECK(fabsl((long double)got - sum) <= (long double)(d + 1) * UNIT * size,
                  "%s: rows %zu n %zu d %zu: score (%zu, %zu) is %.9g, expected %.9Lg", row, rows, n, d, i, j,
                  (double)got, sum);
        }
    free(q);
    free(k);
    free(packed);
    free(s);
}

/* With q = a unit vector each score is a number of k, bit for bit, which shows the packing itself. */
static void T(check_packing)(const char *row, const OPS *ops, size_t n, size_t d) {
    REAL *k = T(buffer)(n * d), *q = T(buffer)(d);
    REAL *packed = T(aligned_buffer)(ops->tile_k * d), *s = T(aligned_buffer)(ops->tile_k);
    ops->pack_keys(n, d, k, d, packed);
    for (size_t c = 0; c < d; c++) {
        memset(q, 0, d * sizeof *q);
        q[c] = 1;
        const size_t middle = ops->tile_k / ATTN_KEY_STEP / 2 * ATTN_KEY_STEP;
        ops->scores(1, middle, ops->tile_k, d, q, d, packed, s);
        if (middle > 0) ops->scores(1, 0, middle, d, q, d, packed, s);
        for (size_t j = 0; j < ops->tile_k; j++)
            CHECK(s[j] == (j < n ? k[j * d + c] : 0), "%s: n %zu d %zu: key %zu, column %zu", row, n, d, j, c);
    }
    const REAL odd[] = {(REAL)NAN, (REAL)INFINITY, -(REAL)INFINITY};
    for (size_t i = 0; i < 3; i++) {
        const size_t at = check_random_below(n * d);
        const REAL before = k[at];
        k[at] = odd[i];
        const REAL greatest = ops->pack_keys(n, d, k, d, packed);
        CHECK(!isfinite(greatest), "%s: n %zu d %zu: %g at %zu unseen", row, n, d, (double)odd[i], at);
        k[at] = before;
    }
    free(k);
    free(q);
    free(packed);
    free(s);
}

/* The sum of two products: the second addition takes off what the first one lost. The products' errors aside, the
 * compensated sum is off by 2 * UNIT of its size (Higham, section 4.3). */
static void T(check_mix)(const char *row, const OPS *ops, size_t rows, size_t n, size_t vectors, size_t gap) {
    const size_t d = vectors * ops->lanes, stride = d + gap;
    REAL *p = T(buffer)(rows * ops->tile_k), *v = T(buffer)(n ? (n - 1) * stride + d : 0);
    REAL *o = T(buffer)(rows * d), *before = T(buffer)(rows * d), *lost = calloc(rows * d, sizeof *lost);
    if (!lost) abort();
    for (size_t i = 0; i < rows * d; i++) o[i] = before[i] *= 1000;
    ops->mix(rows, n, d, p, v, stride, o, lost);
    ops->mix(rows, n, d, p, v, stride, o, lost);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < d; c++) {
            long double sum = 0, size = 0;
            for (size_t j = 0; j < n; j++) {
                const long double term = (long double)p[i * ops->tile_k + j] * (long double)v[j * stride + c];
                sum += 2 * term;
                size += 2 * fabsl(term);
            }
            const long double start = (long double)before[i * d + c], end = (long double)o[i * d + c];
            const long double got = end - start - (long double)lost[i * d + c]; /* end - start comes first: exact */
            CHECK(fabsl(got - sum) <= UNIT * ((long double)(n + 1) * size + UNIT * 8 * (size + fabsl(start))),
                  "%s: rows %zu n %zu d %zu: output (%zu, %zu) grew by %.9Lg, expected %.9Lg", row, rows, n, d, i, c,
                  got, sum);
            CHECK(fabsl((long double)lost[i * d + c]) <= 2 * UNIT * fabsl(end), "%s: too much lost", row);
        }
    free(p);
    free(v);
    free(o);
    free(before);
    free(lost);
}

static REAL T(max_of)(const OPS *ops, size_t n, const REAL *s) {
    REAL max = 0;
    ops->row_max(1, n, s, &max);
    return max;
}

static void T(check_row_max)(const char *row, const OPS *ops, size_t n) {
    REAL *s = T(buffer)(n);
    for (size_t at = 0; at < n; at++) {
        const REAL before = s[at];
        s[at] = (REAL)100;
        CHECK(T(max_of)(ops, n, s) == 100, "%s: n %zu: maximum at %zu unseen", row, n, at);
        s[at] = before;
    }
    for (size_t i = 0; i < n; i++) s[i] = -(REAL)INFINITY;
    CHECK(T(max_of)(ops, n, s) == -(REAL)INFINITY, "%s: n %zu: all -infinity", row, n);
    s[n - 1] = -(REAL)1e30;
    CHECK(T(max_of)(ops, n, s) == -(REAL)1e30, "%s: n %zu: one finite", row, n);
    free(s);
}

/* Several rows at once give the same as each row alone. */
static void T(check_rows)(const char *row, const OPS *ops, size_t rows, size_t n) {
    const size_t count = (rows - 1) * ops->tile_k + n;
    REAL *s = T(buffer)(count), *alone = T(buffer)(count), *shift = T(buffer)(rows), *results = T(buffer)(2 * rows);
    memcpy(alone, s, count * sizeof *s);
    ops->row_max(rows, n, s, results);
    ops->exp_sum(rows, n, s, (REAL)0.7, shift, results + rows);
    for (size_t i = 0; i < rows; i++) {
        REAL *each = alone + i * ops->tile_k, sum;
        CHECK(results[i] == T(max_of)(ops, n, each), "%s: row %zu of %zu: maximum", row, i, rows);
        ops->exp_sum(1, n, each, (REAL)0.7, &shift[i], &sum);
        CHECK(results[rows + i] == sum, "%s: row %zu of %zu: sum", row, i, rows);
    }
    CHECK(memcmp(s, alone, count * sizeof *s) == 0, "%s: rows together and alone differ", row);
    free(s);
    free(alone);
    free(shift);
    free(results);
}

/* |got - exact| in units of the last place of exact, whose exponent is no less than that of the subnormal numbers */
static long double T(ulps)(REAL got, long double exact) {
    int exponent;
    frexpl(exact, &exponent);
    const int last = exponent - DIGITS < LEAST_EXPONENT ? LEAST_EXPONENT : exponent - DIGITS;
    return fabsl((long double)got - exact) / ldexpl(1, last);
}

/* Applies exp_sum to n numbers and gives the worst error in ulp, less what it may be for the number's size; the sum is
 * checked too. */
static long double T(exp_error)(const char *row, const OPS *ops, size_t n, const REAL *x, REAL scale, REAL shift,
                                REAL *s) {
    long double worst = 0, sum = 0;
    memcpy(s, x, n * sizeof *s);
    REAL got;
    ops->exp_sum(1, n, s, scale, &shift, &got);
    for (size_t i = 0; i < n; i++) {
        const REAL scaled = x[i] * scale, shifted = scaled - shift;
        const long double error = T(ulps)(s[i], WIDE_EXP(shifted)) - fabsl((long double)shifted) / 4;
        if (!(error <= worst)) worst = error;
        CHECK(error <= 1, "%s: e^%a is %a, off by %Lg ulp more than its size allows", row, (double)shifted,
              (double)s[i], error);
        sum += (long double)s[i];
    }
    CHECK(fabsl((long double)got - sum) <= (long double)n * UNIT * sum, "%s: n %zu: sum %.9g, expected %.9Lg", row, n,
          (double)got, sum);
    return worst;
}

static void T(check_exp)(const char *row, const OPS *ops, size_t n) {
    REAL *x = T(buffer)(n), *s = T(buffer)(n);
    for (size_t i = 0; i < n; i++) x[i] = -(REAL)fabs(4 * check_random_normal());
    T(exp_error)(row, ops, n, x, 1, 0, s);
    T(exp_error)(row, ops, n, x, 1, (REAL)1.25, s);
    T(exp_error)(row, ops, n, x, (REAL)0.3, (REAL)-1.25, s);
    for (size_t i = 0; i < n; i++) x[i] = check_random_below(2) ? -(REAL)INFINITY : 3;
    memcpy(s, x, n * sizeof *s);
    REAL count, open = 0, shift = 3;
    ops->exp_sum(1, n, s, 1, &shift, &count);
    for (size_t i = 0; i < n; i++) {
        CHECK(s[i] == (x[i] == 3 ? 1 : 0), "%s: n %zu: e^(%g - 3) is %g", row, n, (double)x[i], (double)s[i]);
        open += s[i];
    }
    CHECK(count == open, "%s: n %zu: sum %g of %g ones", row, n, (double)count, (double)open);
    x[n - 1] = (REAL)NAN;
    memcpy(s, x, n * sizeof *s);
    ops->exp_sum(1, n, s, 1, &shift, &count);
    CHECK(isnan(count) && isnan(s[n - 1]), "%s: n %zu: NaN is lost", row, n);
    free(x);
    free(s);
}

/* The three that copy or look at rows, and dots, which must not write beyond n. */
static void T(check_row_functions)(const char *row, const OPS *ops, size_t rows, size_t n, size_t d, size_t gap) {
    const size_t stride = d + gap;
    REAL *q = T(buffer)((rows - 1) * stride + d), *k = T(buffer)((n - 1) * stride + d), *copy = T(buffer)(rows * d);
    REAL *s = T(buffer)((rows - 1) * ops->tile_k + n), *most = T(buffer)(rows), *out = T(buffer)(d);
    REAL greatest_q = 0, greatest_k = 0, factor = (REAL)-0.37;
    const REAL loaded = ops->load(rows, d, q, stride, factor, copy);
    ops->magnitudes(rows, d, q, stride, most);
    for (size_t i = 0; i < rows; i++) {
        REAL greatest = 0;
        for (size_t c = 0; c < d; c++) {
            const REAL x = q[i * stride + c];
            CHECK(copy[i * d + c] == x * factor, "%s: d %zu: copy (%zu, %zu)", row, d, i, c);
            greatest = (REAL)fmax((double)greatest, fabs((double)x));
        }
        CHECK(most[i] == greatest, "%s: d %zu: magnitude of row %zu", row, d, i);
        greatest_q = (REAL)fmax((double)greatest_q, (double)greatest);
    }
    CHECK(loaded == greatest_q, "%s: d %zu: greatest of all rows", row, d);
    ops->finish(d, q, k, (REAL)1.7, out);
    for (size_t c = 0; c < d; c++) CHECK(out[c] == (q[c] - k[c]) / (REAL)1.7, "%s: d %zu: finished %zu", row, d, c);
    const REAL seen = ops->dots(rows, n, d, q, stride, k, stride, s);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < rows; i++) {
            long double sum = 0, size = 0;
            for (size_t c = 0; c < d; c++) {
                const long double term = (long double)q[i * stride + c] * (long double)k[j * stride + c];
                sum += term;
                size += fabsl(term);
                greatest_k = (REAL)fmax((double)greatest_k, fabs((double)k[j * stride + c]));
            }
            const REAL got = s[i * ops->tile_k + j];
            CHECK(fabsl((long double)got - sum) <= (long double)(d + 1) * UNIT * size,
                  "%s: rows %zu n %zu d %zu: dot (%zu, %zu) is %.9g, expected %.9Lg", row, rows, n, d, i, j,
                  (double)got, sum);
        }
    CHECK(seen == greatest_k, "%s: rows %zu n %zu d %zu: greatest key", row, rows, n, d);
    q[check_random_below(d)] = (REAL)NAN;
    k[(n - 1) * stride + check_random_below(d)] = -(REAL)INFINITY;
    ops->magnitudes(rows, d, q, stride, most);
    CHECK(!isfinite(most[0]), "%s: d %zu: NaN unseen", row, d);
    CHECK(!isfinite(ops->load(rows, d, q, stride, factor, copy)), "%s: d %zu: NaN unseen", row, d);
    CHECK(!isfinite(ops->dots(rows, n, d, q, stride, k, stride, s)), "%s: d %zu: infinity unseen", row, d);
    free(q);
    free(k);
    free(copy);
    free(s);
    free(most);
    free(out);
}

static void T(check_multiply)(const char *row, const OPS *ops, size_t rows, size_t columns, size_t inner, bool add) {
    const size_t gap = inner % 3, stride = columns + gap, depth = inner + gap;
    REAL *a = T(buffer)((rows - 1) * depth + inner), *c = T(buffer)((rows - 1) * stride + columns);
    REAL *b = T(buffer)(inner ? (inner - 1) * stride + columns : 0), *transposed = T(buffer)(columns * depth);
    REAL *start = T(buffer)((rows - 1) * stride + columns), *again = T(buffer)((rows - 1) * stride + columns);
    const size_t bytes = ((rows - 1) * stride + columns) * sizeof *c;
    memcpy(start, c, bytes);
    memcpy(again, c, bytes);
    for (size_t t = 0; t < inner; t++)
        for (size_t o = 0; o < columns; o++) transposed[o * depth + t] = b[t * stride + o];
    ops->multiply(rows, columns, inner, a, depth, b, stride, false, add, c, stride);
    ops->multiply(rows, columns, inner, a, depth, transposed, depth, true, add, again, stride);
    for (size_t i = 0; i < rows; i++) {
        for (size_t o = 0; o < columns; o++) {
            long double sum = add ? (long double)start[i * stride + o] : 0, size = fabsl(sum);
            for (size_t t = 0; t < inner; t++) {
                const long double term = (long double)a[i * depth + t] * (long double)b[t * stride + o];
                sum += term;
                size += fabsl(term);
            }
            const REAL got = c[i * stride + o], other = again[i * stride + o];
            const long double bound = (long double)(inner + 2) * UNIT * size;
            CHECK(fabsl((long double)got - sum) <= bound && fabsl((long double)other - sum) <= bound,
                  "%s: %zu x %zu x %zu: (%zu, %zu) is %.9g and %.9g, expected %.9Lg", row, rows, columns, inner, i, o,
                  (double)got, (double)other, sum);
        }
        for (size_t o = columns; i + 1 < rows && o < stride; o++)
            CHECK(c[i * stride + o] == start[i * stride + o], "%s: wrote between rows", row);
    }
    free(a);
    free(b);
    free(c);
    free(transposed);
    free(start);
    free(again);
}

static void T(check_sizes)(const char *row, const OPS *ops) {
    const size_t most = 2 * ops->lanes + 1;
    for (size_t size = 1; size <= most; size++) {
        T(check_row_max)(row, ops, size);
        T(check_exp)(row, ops, size);
        T(check_packing)(row, ops, size, most + 1 - size);
        T(check_row_functions)(row, ops, 1 + size % 5, size, most + 1 - size, size % 4);
        T(check_multiply)(row, ops, 1 + size % 8, size, most - size, size % 2);
        T(check_scores)(row, ops, 1 + size % 7, size, size, size % 3);
        T(check_scores)(row, ops, size, ops->tile_k - size, 3 * size, 0);
        T(check_mix)(row, ops, size, size, 1 + size % 5, size % 3);
    }
    for (size_t rows = 1; rows <= 13; rows++) {
        T(check_rows)(row, ops, rows, ops->tile_k - rows % 3);
        T(check_row_functions)(row, ops, rows, ops->tile_k, 8 * rows, 0);
        T(check_scores)(row, ops, rows, ops->tile_k, 64, 0);
        T(check_mix)(row, ops, rows, ops->tile_k, rows, 0);
    }
    T(check_scores)(row, ops, 3, 0, 5, 0);
    T(check_multiply)(row, ops, 13, 3 * ops->lanes + 1, 600, true);
    T(check_multiply)(row, ops, 2, 4 * ops->lanes, 256, false);
    T(check_mix)(row, ops, 3, 0, 2, 0);
    T(check_scores)(row, ops, ops->tile_q, ops->tile_k, 40, 2);
    T(check_mix)(row, ops, ops->tile_q, ops->tile_k - 1, 4, 1);
    T(check_row_max)(row, ops, ops->tile_k);
    T(check_exp)(row, ops, ops->tile_k);
}
