#include "random.h"

#include <math.h>

uint64_t api_random_bits(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

double api_random_uniform(uint64_t seed, uint64_t index) {
    return (double)(api_random_bits(seed, index) >> 11) * 0x1p-53;
}

/* ---- the inverse of the normal distribution function -------------------------------------------------------------
 * Wichura, "Algorithm AS 241: The percentage points of the normal distribution", Applied Statistics 37 (1988): three
 * quotients of polynomials, right to about 1e-16. */

enum { TERMS = 8 };
typedef struct quotient {
    double above[TERMS], below[TERMS]; /* the coefficients, from that of x^0 on */
} quotient;

static const quotient middle = {
    {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
     4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3},
    {1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3, 2.1213794301586595867e+4,
     3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3}};
static const quotient outside = {
    {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4},
    {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
     1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9}};
static const quotient far_outside = {
    {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7},
    {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
     1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15}};

static double divided(const quotient *q, double x) {
    double above = q->above[TERMS - 1], below = q->below[TERMS - 1];
    for (int i = TERMS - 2; i >= 0; i--) {
        above = above * x + q->above[i];
        below = below * x + q->below[i];
    }
    return above / below;
}

/* ln m of 1/2 <= m < 1 times 2^e, by 2 atanh((m - 1) / (m + 1)). libm's differs from machine to machine. */
static double logarithm(double x) {
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0.70710678118654752440) {
        m = m * 2;
        exponent--;
    }
    const double f = (m - 1) / (m + 1), square = f * f;
    double sum = 0;
    for (int i = 23; i >= 1; i -= 2) sum = sum * square + 1.0 / i;
    return exponent * 0.69314718055994530942 + 2 * f * sum;
}

double api_random_normal(uint64_t seed, uint64_t index) {
    const double p = ((double)(api_random_bits(seed, index) >> 12) + 0.5) * 0x1p-52, q = p - 0.5;
    if (fabs(q) <= 0.425) return q * divided(&middle, 0.180625 - q * q);
    const double root = sqrt(-logarithm(q < 0 ? p : 1 - p));
    const double x = root <= 5 ? divided(&outside, root - 1.6) : divided(&far_outside, root - 5);
    return q < 0 ? -x : x;
}

void api_random_fill(api_distribution distribution, uint64_t seed, size_t first, size_t end, api_dtype dtype, void *x) {
    for (size_t i = first; i < end; i++) {
        const double number = distribution == API_NORMAL ? api_random_normal(seed, i) : api_random_uniform(seed, i);
        if (dtype == API_F64)
            ((double *)x)[i - first] = number;
        else
            ((float *)x)[i - first] = (float)number;
    }
}
