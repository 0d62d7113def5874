#include "quad.h"

#include <math.h>

static attn_quad two_pi(void) {
    return (attn_quad)0x1.921fb54442d18p+2 + (attn_quad)0x1.1a62633145c07p-52 + (attn_quad)-0x1.f1976b7ed8fbcp-108;
}

static attn_quad ln_2(void) {
    return (attn_quad)0x1.62e42fefa39efp-1 + (attn_quad)0x1.abc9e3b39803fp-56 + (attn_quad)0x1.7b57a079a1934p-111;
}

/* e^x = 2^n e^r with |r| <= ln 2 / 2, by its series: the 32nd term is below 2^-160 */
static attn_quad exponential(attn_quad x) {
    const double n = rint((double)(x / ln_2()));
    const attn_quad r = x - (attn_quad)n * ln_2();
    attn_quad sum = 1, term = 1;
    for (int i = 1; i < 32; i++) {
        term *= r / i;
        sum += term;
    }
    return sum * (attn_quad)ldexp(1, (int)n);
}

/* ln x by Halley's iteration on e^y = x: each step triples the digits that are right, 53 bits at first */
static attn_quad logarithm(attn_quad x) {
    attn_quad y = log((double)x);
    for (int i = 0; i < 2; i++) {
        const attn_quad e = exponential(y);
        y += 2 * (x - e) / (x + e);
    }
    return y;
}

attn_quad attn_quad_power(attn_quad x, attn_quad y) { return exponential(y * logarithm(x)); }

void attn_quad_turn(attn_quad angle, double *cosine, double *sine) {
    const double turns = rint((double)angle / 0x1.921fb54442d18p+2);
    const attn_quad rest = angle - (attn_quad)turns * two_pi();
    const double high = (double)rest, low = (double)(rest - (attn_quad)high), c = cos(high), s = sin(high);
    *cosine = c - low * s;
    *sine = s + low * c;
}
