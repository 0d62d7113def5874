/* portable.c: the last row of the kernel table: tile products by OpenBLAS, the rest in loops that compilers turn into
 * vectors of whatever the CPU has. */
#include "../blas.h"
#include "../compensated.h"
#include "../ops.h"

#include <string.h>

#ifdef ATTN_DOUBLE
#define GEMM attn_gemm_f64
#define LANES 8
#else
#define GEMM attn_gemm_f32
#define LANES 16
#endif

/* A tile of 64 x 128 keeps OpenBLAS near its best while its scores, keys and values stay in the level 2 cache. */
#define TILE_Q 64
#define TILE_K 128
#define MIX_COLUMNS 64 /* of the output at once */
/* A call of OpenBLAS costs about as much as this many multiply-adds in plain loops. */
#define FEW_PRODUCTS 4096

static real real_of(bits b) {
    real x;
    memcpy(&x, &b, sizeof x);
    return x;
}

static real pack_keys(size_t n, size_t d, const real *k, size_t stride, real *packed) {
    bits most = 0;
    for (size_t first = 0; first < d; first += LANES) {
        size_t end = d - first < LANES ? d : first + LANES;
        for (size_t j = 0; j < n; j++) {
            for (size_t c = first; c < end; c++) {
                real x = k[j * stride + c];
                bits size = bits_of(x) & SIGN_OFF;
                most = size > most ? size : most;
                packed[c * TILE_K + j] = x;
            }
        }
    }
    for (size_t c = 0; c < d && n < TILE_K; c++) memset(packed + c * TILE_K + n, 0, (TILE_K - n) * sizeof *packed);
    return real_of(most);
}

/* Always of all keys: OpenBLAS does the columns at an edge by other kernels than those inside, with other bits. */
static void scores(size_t rows, size_t lo, size_t hi, size_t d, const real *q, size_t q_stride, const real *packed,
                   real *s) {
    (void)lo;
    (void)hi;
    if (rows > 2 && rows * d * TILE_K > FEW_PRODUCTS) {
        GEMM(rows, TILE_K, d, q, q_stride, packed, TILE_K, false, 0, s, TILE_K);
        return;
    }
    for (size_t i = 0; i < rows; i++) {
        real *row = s + i * TILE_K;
        memset(row, 0, TILE_K * sizeof *row);
        for (size_t c = 0; c < d; c++) {
            real x = q[i * q_stride + c];
            for (size_t j = 0; j < TILE_K; j++) row[j] += x * packed[c * TILE_K + j];
        }
    }
}

static real greatest(size_t n, const real *s) {
    real most[LANES], result = s[0];
    size_t whole = n / LANES * LANES;
    for (size_t l = 0; l < LANES; l++) most[l] = s[0];
    for (size_t j = 0; j < whole; j += LANES) {
        for (size_t l = 0; l < LANES; l++) most[l] = s[j + l] > most[l] ? s[j + l] : most[l];
    }
    for (size_t l = 0; l < LANES; l++) result = most[l] > result ? most[l] : result;
    for (size_t j = whole; j < n; j++) result = s[j] > result ? s[j] : result;
    return result;
}

static void row_max(size_t rows, size_t n, const real *s, real *max) {
    for (size_t i = 0; i < rows; i++) max[i] = greatest(n, s + i * TILE_K);
}

/* e^x = 2^n 2^r as in simd_exponentials.h. Without fused multiply-add r is the exact x - n LN2_HIGH, less n LN2_LOW,
 * times log2 e: LN2_HIGH has so few bits that its products with n are exact. 2^r = 1 + r h(r) with the h of simd.h,
 * done as (1 + r / 2) + r (h - 1/2), what rounding its first part lost being put back. For x <= 20; the error is under
 * 1 ulp, and 2^n is exact. 2^(n + LIFT) is a normal number for every n: what is too small to be one is rounded once, by
 * the last product. */
#ifdef ATTN_DOUBLE
#define ROUNDER 0x1.8p52 /* adding it leaves the nearest integer in the low bits */
#define MANTISSA_BITS 52
#define EXPONENT_BIAS 1023
#define LOWEST -746.0 /* from here on the result is 0 */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#define LIFT 128
#define UNLIFT 0x1p-128
static real exp2_tail(real r) {
    real p = 0x1.e811937d64c24p-32;
    p = p * r + 0x1.e61228b79147ep-28;
    p = p * r + 0x1.b5260c3bc81ffp-24;
    p = p * r + 0x1.62bfcd86b0d43p-20;
    p = p * r + 0x1.ffcbfbf933a2ep-17;
    p = p * r + 0x1.4309130c28c57p-13;
    p = p * r + 0x1.5d87fe78b3b41p-10;
    p = p * r + 0x1.3b2ab6fba110dp-7;
    p = p * r + 0x1.c6b08d704a0d4p-5;
    p = p * r + 0x1.ebfbdff82c59cp-3;
    return p * r + 0x1.8b90bfbe8e7bcp-3; /* ln 2 - 1/2 */
}
#else
#define ROUNDER 0x1.8p23F
#define MANTISSA_BITS 23
#define EXPONENT_BIAS 127
#define LOWEST -104.0F
#define LN2_HIGH 0x1.62e4p-1F
#define LN2_LOW 0x1.7f7d1cp-20F
#define LIFT 64
#define UNLIFT 0x1p-64F
static real exp2_tail(real r) {
    real p = 0x1.470b5ap-13F;
    p = p * r + 0x1.5f721p-10F;
    p = p * r + 0x1.3b2688p-7F;
    p = p * r + 0x1.c6ae4ep-5F;
    p = p * r + 0x1.ebfbe8p-3F;
    return p * r + 0x1.8b90c8p-3F;
}
#endif

static real exp_of(real x) {
    real within = x < LOWEST ? LOWEST : x; /* NaN stays NaN */
    real shifted = within * (real)LOG2_E + ROUNDER, n = shifted - ROUNDER;
    real r = ((within - n * LN2_HIGH) - n * LN2_LOW) * (real)LOG2_E;
    real power = real_of((bits_of(shifted) + EXPONENT_BIAS + LIFT) << MANTISSA_BITS);
    power = x < LOWEST ? 0 : power; /* a product that underflows takes 150 cycles on many CPUs */
    real half = (real)0.5 * r, sum = 1 + half, lost = half - (sum - 1);
    return (sum + (r * exp2_tail(r) + lost)) * power * UNLIFT;
}

static void exp_sum(size_t rows, size_t n, real *s, real scale, const real *shift, real *sum) {
    size_t whole = n / LANES * LANES;
    for (size_t i = 0; i < rows; i++, s += TILE_K) {
        real sums[LANES] = {0}, total = 0;
        const real by = shift[i];
        for (size_t j = 0; j < n; j++) s[j] = exp_of(s[j] * scale - by);
        for (size_t j = 0; j < whole; j += LANES) {
            for (size_t l = 0; l < LANES; l++) sums[l] += s[j + l];
        }
        for (size_t l = 0; l < LANES; l++) total += sums[l];
        for (size_t j = whole; j < n; j++) total += s[j];
        sum[i] = total;
    }
}

/* x (rows, columns) = p v */
static void mix_columns(size_t rows, size_t n, size_t columns, const real *p, const real *v, size_t v_stride, real *x) {
    if (rows > 2 && rows * columns * n > FEW_PRODUCTS) {
        GEMM(rows, columns, n, p, TILE_K, v, v_stride, false, 0, x, columns);
        return;
    }
    memset(x, 0, rows * columns * sizeof *x);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < n; j++) {
            real weight = p[i * TILE_K + j];
            for (size_t c = 0; c < columns; c++) x[i * columns + c] += weight * v[j * v_stride + c];
        }
    }
}

static void mix(size_t rows, size_t n, size_t d, const real *p, const real *v, size_t v_stride, real *o, real *lost) {
    real x[TILE_Q * MIX_COLUMNS];
    if (n == 0) return;
    for (size_t first = 0; first < d; first += MIX_COLUMNS) {
        size_t columns = d - first < MIX_COLUMNS ? d - first : MIX_COLUMNS;
        mix_columns(rows, n, columns, p, v + first, v_stride, x);
        for (size_t i = 0; i < rows; i++) {
            real *sum = o + i * d + first, *error = lost + i * d + first;
            for (size_t c = 0; c < columns; c++) ATTN_ADD_COMPENSATED(sum[c], error[c], x[i * columns + c]);
        }
    }
}

static real magnitude(size_t n, const real *x) {
    bits most = 0;
    for (size_t c = 0; c < n; c++) {
        bits size = bits_of(x[c]) & SIGN_OFF;
        most = size > most ? size : most;
    }
    return real_of(most);
}

static void magnitudes(size_t rows, size_t d, const real *x, size_t stride, real *most) {
    for (size_t i = 0; i < rows; i++) most[i] = magnitude(d, x + i * stride);
}

/* the greater by magnitude's order, NaN last */
static real greater(real a, real b) { return bits_of(a) > bits_of(b) ? a : b; }

static real dots(size_t rows, size_t n, size_t d, const real *q, size_t q_stride, const real *k, size_t k_stride,
                 real *s) {
    real most = 0;
    for (size_t j = 0; j < n; j++) {
        const real *key = k + j * k_stride;
        most = greater(magnitude(d, key), most);
        for (size_t i = 0; i < rows; i++) {
            real parts[LANES] = {0}, sum = 0;
            size_t whole = d / LANES * LANES;
            for (size_t c = 0; c < whole; c += LANES) {
                for (size_t l = 0; l < LANES; l++) parts[l] += q[i * q_stride + c + l] * key[c + l];
            }
            for (size_t l = 0; l < LANES; l++) sum += parts[l];
            for (size_t c = whole; c < d; c++) sum += q[i * q_stride + c] * key[c];
            s[i * TILE_K + j] = sum;
        }
    }
    return most;
}

static real load(size_t rows, size_t d, const real *x, size_t stride, real factor, real *out) {
    real most = 0;
    for (size_t i = 0; i < rows; i++, x += stride, out += d) {
        most = greater(magnitude(d, x), most);
        for (size_t c = 0; c < d; c++) out[c] = x[c] * factor;
    }
    return most;
}

static void finish(size_t n, const real *o, const real *lost, real sum, real *out) {
    for (size_t c = 0; c < n; c++) out[c] = (o[c] - lost[c]) / sum;
}

static void multiply(size_t rows, size_t columns, size_t inner, const real *a, size_t a_stride, const real *b,
                     size_t b_stride, bool transposed, bool add, real *c, size_t c_stride) {
    GEMM(rows, columns, inner, a, a_stride, b, b_stride, transposed, add ? 1 : 0, c, c_stride);
}

extern const ATTN_T(attn_ops) ATTN_T(attn_portable);
const ATTN_T(attn_ops) ATTN_T(attn_portable) = {
    .tile_q = TILE_Q,
    .tile_k = TILE_K,
    .block_q = TILE_Q,
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
