/* simd.h: the functions of a kernel row, written once on top of the vectors of an instruction set.
 *
 * A row's source includes this after it has defined ROW (the name of its table), vec (a vector of LANES numbers) with
 * its vec_ functions, the micro-kernel's TILE_ROWS by TILE_VECTORS, and TILE_Q by TILE_K; it is compiled once for float
 * and once for double. vec_max(a, b) must give b where one of the two is NaN, vec_fma(a, b, c) = a * b + c must round
 * once, and vec_fms(a, b, c) = a * b - c likewise; vec_scale(a, x) adds the integer in the low bits of x to the
 * exponent of a. vec_mul_from(least, x, a, b) is a * b, but 0, without multiplying, where x < least. A row with an
 * instruction for a * 2^n defines VEC_POWER, and vec_scale_from(least, x, a, n) in place of those two. One that can
 * load and store parts of a vector defines VEC_PARTS.
 *
 * The micro-kernel holds TILE_ROWS x TILE_VECTORS accumulators in registers and, for each step of the depth, loads
 * TILE_VECTORS vectors of one matrix and broadcasts TILE_ROWS numbers of the other. docs/performance.md tells what
 * other shapes gave. Keys are packed in panels of PANEL neighbours: packed[(j / PANEL * d + c) * PANEL + j % PANEL], so
 * that one panel is read from one end to the other.
 */
#include "../compensated.h"

#include <math.h>
#include <string.h>

#define PANEL ((size_t)TILE_VECTORS * LANES)
#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* Rows whose scores stay in the level 1 cache between the two products */
#ifndef BLOCK_Q
#define BLOCK_Q (2 * TILE_ROWS)
#endif

_Static_assert(TILE_K % (TILE_VECTORS * LANES) == 0, "a tile of keys is made of whole panels");
_Static_assert(ATTN_KEY_STEP % (TILE_VECTORS * LANES) == 0, "and so is a step");

/* ---- parts of a vector ---- */

#ifdef VEC_PARTS
/* Loads the first min(n, LANES) numbers, the rest of the vector being `filler` */
INLINE vec load_part(size_t n, const real *s, real filler) { return vec_load_part(n, s, vec_set(filler)); }

/* Stores the first n < LANES numbers, or all */
INLINE void store_part(size_t n, real *to, vec a) { vec_store_part(n, to, a); }
#else
INLINE vec load_part(size_t n, const real *s, real filler) {
    real lane[LANES];
    for (size_t i = 0; i < LANES; i++) lane[i] = i < n ? s[i] : filler;
    return vec_load(lane);
}

INLINE void store_part(size_t n, real *to, vec a) {
    real lane[LANES];
    vec_store(lane, a);
    memcpy(to, lane, n * sizeof *to);
}
#endif

/* ---- the tile products ---- */

/* One step: acc (rows, vectors) += a column of a (rows) times a row of b (vectors). `lower` is row 3 of a: two base
 * registers and the stride reach all rows, where the compiler would keep a register for each. */
INLINE void multiply_add(size_t rows, size_t vectors, const real *a, const real *lower, size_t a_stride, const real *b,
                         vec *acc) {
    vec row[TILE_VECTORS];
    UNROLL
    for (size_t j = 0; j < vectors; j++) row[j] = vec_load(b + j * LANES);
    UNROLL
    for (size_t i = 0; i < rows; i++) {
        const vec x = vec_set(i < 3 ? a[i * a_stride] : lower[(i - 3) * a_stride]);
        UNROLL
        for (size_t j = 0; j < vectors; j++) vec_accumulate(&acc[i * vectors + j], x, row[j]);
    }
}

/* Keeps the compiler from knowing how `p` came about, and from moving loads across. */
#define HIDE(p) __asm__ volatile("" : "+r"(p) : : "memory")

/* acc (rows, vectors) = a (rows, depth) b (depth, vectors). `rows` and `vectors` are constants where this is inlined,
 * so that acc is registers. Four steps a turn: fewer branches, of which the last is then foreseen. */
INLINE void micro_kernel(size_t rows, size_t vectors, size_t depth, const real *a, size_t a_stride, const real *b,
                         size_t b_stride, vec *acc) {
    const real *lower = rows > 3 ? a + 3 * a_stride : a;
    HIDE(lower);
    UNROLL
    for (size_t i = 0; i < rows * vectors; i++) acc[i] = vec_zero();
    size_t t = 0;
    for (; t + 4 <= depth; t += 4) {
        UNROLL
        for (size_t u = 0; u < 4; u++) {
            multiply_add(rows, vectors, a + u, lower + u, a_stride, b, acc);
            b += b_stride;
            HIDE(b);
        }
        a += 4;
        lower += 4;
    }
    for (; t < depth; t++, a++, lower++, b += b_stride) multiply_add(rows, vectors, a, lower, a_stride, b, acc);
}

/* The rows left are cut into blocks as even as can be: 7 = 4 + 3, since 6 + 1 would leave most registers unused. */
INLINE size_t next_block(size_t rows_left) {
    const size_t blocks = (rows_left + TILE_ROWS - 1) / TILE_ROWS;
    return (rows_left + blocks - 1) / blocks;
}

/* `rows` (1 to TILE_ROWS) known at run time only -> a call in which it is a constant */
#define WITH_CONSTANT_ROWS(rows, function, ...) \
    switch (rows) {                             \
    case 1: function(1, __VA_ARGS__); break;    \
    case 2: function(2, __VA_ARGS__); break;    \
    case 3: function(3, __VA_ARGS__); break;    \
    case 4: function(4, __VA_ARGS__); break;    \
    case 5: function(5, __VA_ARGS__); break;    \
    default: function(6, __VA_ARGS__); break;   \
    }

_Static_assert(TILE_ROWS == 6, "WITH_CONSTANT_ROWS has a case for each number of rows");

INLINE void score_block(size_t rows, size_t d, const real *q, size_t q_stride, const real *panel, real *s) {
    vec acc[TILE_ROWS * TILE_VECTORS];
    micro_kernel(rows, TILE_VECTORS, d, q, q_stride, panel, PANEL, acc);
    UNROLL
    for (size_t i = 0; i < rows * TILE_VECTORS; i++)
        vec_store(s + i / TILE_VECTORS * TILE_K + i % TILE_VECTORS * LANES, acc[i]);
}

static void scores(size_t rows, size_t lo, size_t hi, size_t d, const real *q, size_t q_stride, const real *packed,
                   real *s) {
    for (size_t j = lo; j < hi; j += PANEL)
        for (size_t i = 0, count; i < rows; i += count) {
            count = next_block(rows - i);
            WITH_CONSTANT_ROWS(count, score_block, d, q + i * q_stride, q_stride, packed + j * d, s + i * TILE_K + j)
        }
}

/* It costs the FMA units nothing. */
INLINE void add_compensated(vec x, real *to, real *to_lost) {
    vec sum = vec_load(to), lost = vec_load(to_lost);
    ATTN_ADD_COMPENSATED(sum, lost, x);
    vec_store(to_lost, lost);
    vec_store(to, sum);
}

INLINE void mix_block(size_t rows, size_t vectors, size_t n, size_t d, const real *p, const real *v, size_t v_stride,
                      real *o, real *lost) {
    vec acc[TILE_ROWS * TILE_VECTORS];
    micro_kernel(rows, vectors, n, p, TILE_K, v, v_stride, acc);
    UNROLL
    for (size_t i = 0; i < rows * vectors; i++) {
        const size_t at = i / vectors * d + i % vectors * LANES;
        add_compensated(acc[i], o + at, lost + at);
    }
}

/* The micro-kernel adds key after key, so that n keys cost up to n/2 eps of sum |p v|; of that the contract allows
 * 8 (1 + log2 n), whatever the weights: 128 is the most that it covers, and so as many are summed at once. */
#define SUM_KEYS 128

static void mix_keys(size_t rows, size_t n, size_t d, const real *p, const real *v, size_t v_stride, real *o,
                     real *lost) {
    const size_t whole = d / PANEL * PANEL;
    for (size_t c = 0; c < d; c += c < whole ? PANEL : LANES)
        for (size_t i = 0, count; i < rows; i += count) {
            const size_t at = i * d + c;
            count = next_block(rows - i);
            if (c < whole)
                WITH_CONSTANT_ROWS(count, mix_block, TILE_VECTORS, n, d, p + i * TILE_K, v + c, v_stride, o + at,
                                   lost + at)
            else
                WITH_CONSTANT_ROWS(count, mix_block, 1, n, d, p + i * TILE_K, v + c, v_stride, o + at, lost + at)
        }
}

static void mix(size_t rows, size_t n, size_t d, const real *p, const real *v, size_t v_stride, real *o, real *lost) {
    for (size_t j = 0; j < n; j += SUM_KEYS)
        mix_keys(rows, n - j < SUM_KEYS ? n - j : SUM_KEYS, d, p + j, v + j * v_stride, v_stride, o, lost);
}

/* ---- packing ---- */

/* |k| seen so far: its maximum, and zeros summed that become NaN with the first number that is not finite */
typedef struct magnitude {
    vec greatest, zeros;
} magnitude;

INLINE void magnitude_see(magnitude *m, vec k) {
    m->greatest = vec_max(vec_abs(k), m->greatest);
    m->zeros = vec_fma(k, vec_zero(), m->zeros);
}

INLINE real magnitude_of(const magnitude *m) { return vec_greatest(m->greatest) + vec_sum(m->zeros); }

/* Asks for what follows 2 KiB behind p, be it past the end of all memory: with one query, memory is what takes the
 * time, and several rows read side by side are not foreseen by the CPU (decoding took 65 ms without, 51 ms with). */
INLINE void fetch_ahead(const real *p) { __builtin_prefetch((const void *)((uintptr_t)p + 2048)); }

/* LANES keys by columns [c, c + LANES) through a transposition in registers */
INLINE void pack_square(const real *k, size_t stride, real *out, magnitude *m) {
    vec r[LANES];
    UNROLL
    for (size_t i = 0; i < LANES; i++) {
        r[i] = vec_load(k + i * stride);
        magnitude_see(m, r[i]);
    }
    vec_transpose(r);
    UNROLL
    for (size_t i = 0; i < LANES; i++) vec_store(out + i * PANEL, r[i]);
}

/* up to LANES keys, column by column, zeros beyond the keys */
INLINE void pack_columns(size_t n, size_t columns, const real *k, size_t stride, real *out, magnitude *m) {
    for (size_t c = 0; c < columns; c++) {
        real column[LANES] = {0};
        for (size_t j = 0; j < n; j++) column[j] = k[j * stride + c];
        const vec r = vec_load(column);
        magnitude_see(m, r);
        vec_store(out + c * PANEL, r);
    }
}

/* up to LANES keys, all columns */
INLINE void pack_lanes(size_t keys, size_t d, const real *k, size_t stride, real *out, magnitude *m) {
    size_t c = 0;
    if (keys == LANES)
        for (; c + LANES <= d; c += LANES) pack_square(k + c, stride, out + c * PANEL, m);
    pack_columns(keys, d - c, keys ? k + c : k, stride, out + c * PANEL, m);
}

static real pack_keys(size_t n, size_t d, const real *k, size_t stride, real *packed) {
    magnitude m = {vec_zero(), vec_zero()};
    for (size_t j = 0; j < TILE_K; j += LANES) {
        const size_t keys = n > j ? n - j < LANES ? n - j : LANES : 0;
        pack_lanes(keys, d, keys ? k + j * stride : k, stride, packed + j / PANEL * d * PANEL + j % PANEL, &m);
    }
    return magnitude_of(&m);
}

/* ---- whole products ---- */

#define DEPTH 256                                    /* of packed panels, which stay in the level 2 cache: */
#define PANELS (PANEL < 64 ? 64 / PANEL : (size_t)1) /* so many side by side */

/* packed (depth, PANEL) = b (depth, columns), or (columns, depth) if transposed; zeros beyond the columns */
INLINE void pack_panel(size_t columns, size_t depth, const real *b, size_t stride, bool transposed, real *packed) {
    magnitude m = {vec_zero(), vec_zero()};
    if (transposed) {
        for (size_t j = 0; j < PANEL; j += LANES) {
            const size_t keys = columns > j ? columns - j < LANES ? columns - j : LANES : 0;
            pack_lanes(keys, depth, keys ? b + j * stride : b, stride, packed + j, &m);
        }
        return;
    }
    for (size_t t = 0; t < depth; t++, b += stride, packed += PANEL)
        for (size_t j = 0; j < PANEL; j += LANES)
            vec_store(packed + j,
                      j + LANES <= columns ? vec_load(b + j) : load_part(columns > j ? columns - j : 0, b + j, 0));
}

/* c (rows, columns) = x (rows, PANEL), or += */
__attribute__((noinline)) static void put_part(size_t rows, size_t columns, const real *x, bool add, real *c,
                                               size_t c_stride) {
    for (size_t i = 0; i < rows; i++, x += PANEL, c += c_stride)
        for (size_t o = 0; o < columns; o++) c[o] = add ? c[o] + x[o] : x[o];
}

INLINE void multiply_block(size_t rows, size_t columns, size_t depth, const real *a, size_t a_stride,
                           const real *packed, bool add, real *c, size_t c_stride) {
    vec acc[TILE_ROWS * TILE_VECTORS];
    micro_kernel(rows, TILE_VECTORS, depth, a, a_stride, packed, PANEL, acc);
    if (columns < PANEL) {
        real part[TILE_ROWS * TILE_VECTORS * LANES];
        UNROLL
        for (size_t i = 0; i < rows * TILE_VECTORS; i++) vec_store(part + i * LANES, acc[i]);
        put_part(rows, columns, part, add, c, c_stride);
        return;
    }
    UNROLL
    for (size_t i = 0; i < rows * TILE_VECTORS; i++) {
        real *to = c + i / TILE_VECTORS * c_stride + i % TILE_VECTORS * LANES;
        vec_store(to, add ? vec_add(vec_load(to), acc[i]) : acc[i]);
    }
}

/* Not inlined: beside the packing the compiler would keep accumulators on the stack. */
__attribute__((noinline)) static void multiply_packed(size_t rows, size_t columns, size_t depth, const real *a,
                                                      size_t a_stride, const real *packed, bool add, real *c,
                                                      size_t c_stride) {
    for (size_t i = 0, count; i < rows; i += count) {
        count = next_block(rows - i);
        for (size_t o = 0; o < columns; o += PANEL)
            WITH_CONSTANT_ROWS(count, multiply_block, columns - o, depth, a + i * a_stride, a_stride,
                               packed + o * depth, add, c + i * c_stride + o, c_stride)
    }
}

static void multiply(size_t rows, size_t columns, size_t inner, const real *a, size_t a_stride, const real *b,
                     size_t b_stride, bool transposed, bool add, real *c, size_t c_stride) {
    _Alignas(64) real packed[DEPTH * PANEL * PANELS];
    if (inner == 0 && !add)
        for (size_t i = 0; i < rows; i++) memset(c + i * c_stride, 0, columns * sizeof *c);
    for (size_t t = 0; t < inner; t += DEPTH)
        for (size_t column = 0; column < columns; column += PANEL * PANELS) {
            const size_t depth = inner - t < DEPTH ? inner - t : DEPTH;
            const size_t wide = columns - column < PANEL * PANELS ? columns - column : PANEL * PANELS;
            const real *from = b + (transposed ? column * b_stride + t : t * b_stride + column);
            for (size_t o = 0; o < wide; o += PANEL)
                pack_panel(wide - o < PANEL ? wide - o : PANEL, depth, from + o * (transposed ? b_stride : 1), b_stride,
                           transposed, packed + o * depth);
            multiply_packed(rows, wide, depth, a + t, a_stride, packed, add || t > 0, c + column, c_stride);
        }
}

/* ---- keys where they are ---- */

#define DOT_ROWS 2
#define DOT_KEYS 4

/* The scores of `rows` queries and `keys` keys, which are constants where this is inlined. `m` sees the keys if `see`.
 */
INLINE void dot_block(size_t rows, size_t keys, bool see, size_t d, const real *q, size_t q_stride, const real *k,
                      size_t k_stride, real *s, magnitude *m) {
    vec acc[DOT_ROWS * DOT_KEYS], x[DOT_ROWS];
    UNROLL
    for (size_t i = 0; i < rows * keys; i++) acc[i] = vec_zero();
    for (size_t c = 0; c < d; c += LANES) {
        const bool whole = c + LANES <= d;
        UNROLL
        for (size_t i = 0; i < rows; i++)
            x[i] = whole ? vec_load(q + i * q_stride + c) : load_part(d - c, q + i * q_stride + c, 0);
        UNROLL
        for (size_t j = 0; j < keys; j++) {
            const vec y = whole ? vec_load(k + j * k_stride + c) : load_part(d - c, k + j * k_stride + c, 0);
            if (see) {
                magnitude_see(m, y);
                fetch_ahead(k + j * k_stride + c);
            }
            UNROLL
            for (size_t i = 0; i < rows; i++) vec_accumulate(&acc[i * keys + j], x[i], y);
        }
    }
    UNROLL
    for (size_t i = 0; i < rows * keys; i++) s[i / keys * TILE_K + i % keys] = vec_sum(acc[i]);
}

INLINE void dot_keys(size_t rows, size_t keys, size_t d, const real *q, size_t q_stride, const real *k, size_t k_stride,
                     real *s, magnitude *m) {
    size_t i = 0;
    if (rows == 1)
        dot_block(1, keys, true, d, q, q_stride, k, k_stride, s, m), i = 1;
    else
        dot_block(DOT_ROWS, keys, true, d, q, q_stride, k, k_stride, s, m), i = DOT_ROWS;
    for (; i + DOT_ROWS <= rows; i += DOT_ROWS)
        dot_block(DOT_ROWS, keys, false, d, q + i * q_stride, q_stride, k, k_stride, s + i * TILE_K, m);
    if (i < rows) dot_block(1, keys, false, d, q + i * q_stride, q_stride, k, k_stride, s + i * TILE_K, m);
}

static real dots(size_t rows, size_t n, size_t d, const real *q, size_t q_stride, const real *k, size_t k_stride,
                 real *s) {
    magnitude m = {vec_zero(), vec_zero()};
    size_t j = 0;
    for (; j + DOT_KEYS <= n; j += DOT_KEYS)
        dot_keys(rows, DOT_KEYS, d, q, q_stride, k + j * k_stride, k_stride, s + j, &m);
    for (; j < n; j++) dot_keys(rows, 1, d, q, q_stride, k + j * k_stride, k_stride, s + j, &m);
    return magnitude_of(&m);
}

/* ---- rows on their way in and out ---- */

static real load(size_t rows, size_t d, const real *x, size_t stride, real factor, real *out) {
    magnitude m = {vec_zero(), vec_zero()};
    for (size_t i = 0; i < rows; i++, x += stride, out += d) {
        size_t c = 0;
        for (; c + LANES <= d; c += LANES) {
            const vec a = vec_load(x + c);
            magnitude_see(&m, a);
            vec_store(out + c, vec_mul(a, vec_set(factor)));
        }
        if (c == d) continue;
        const vec a = load_part(d - c, x + c, 0);
        magnitude_see(&m, a);
        store_part(d - c, out + c, vec_mul(a, vec_set(factor)));
    }
    return magnitude_of(&m);
}

static void magnitudes(size_t rows, size_t d, const real *x, size_t stride, real *most) {
    for (size_t i = 0; i < rows; i++, x += stride) {
        magnitude m = {vec_zero(), vec_zero()};
        size_t c = 0;
        for (; c + LANES <= d; c += LANES) {
            magnitude_see(&m, vec_load(x + c));
            fetch_ahead(x + c);
        }
        if (c < d) magnitude_see(&m, load_part(d - c, x + c, 0));
        most[i] = magnitude_of(&m);
    }
}

static void finish(size_t n, const real *o, const real *lost, real sum, real *out) {
    const vec by = vec_set(sum);
    size_t c = 0;
    for (; c + LANES <= n; c += LANES) vec_store(out + c, vec_div(vec_sub(vec_load(o + c), vec_load(lost + c)), by));
    for (; c < n; c++) out[c] = (o[c] - lost[c]) / sum;
}

#include "simd_exponentials.h"

extern const ATTN_T(attn_ops) ROW;
const ATTN_T(attn_ops) ROW = {
    .tile_q = TILE_Q,
    .tile_k = TILE_K,
    .block_q = BLOCK_Q,
    .lanes = LANES,
    .pack_keys = pack_keys,
    .scores = scores,
    .row_max = row_max,
    .exp_sum = exp_sum,
    .mix = mix,
    .dots = dots,
    .load = load,
    .magnitudes = magnitudes,
    .finish = finish,
    .multiply = multiply,
};
