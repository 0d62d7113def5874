/* Frequencies of rotary positions and their scalings.
 *
 * Su et al., arXiv:2104.09864, section 3.2.2; linear: Chen et al., arXiv:2306.15595; ntk and dynamic: theta grows so
 * that the slowest pair turns `factor` times more slowly and the fastest as before; yarn: Peng et al.,
 * arXiv:2309.00071, with the ramp over indices of pairs that its code and the models use; llama3: the Llama 3.1
 * release. */
#include "frequencies.h"

#include <math.h>

/* theta times s^(dim / (dim - 2)); a single pair does not turn by theta at all */
static attn_quad grown_theta(const attn_rope *rope, attn_quad s) {
    if (rope->dim == 2) return rope->theta;
    return rope->theta * attn_quad_power(s, (attn_quad)rope->dim / (attn_quad)(rope->dim - 2));
}

static attn_quad theta_of(const attn_rope *rope, size_t length) {
    const attn_quad l = (attn_quad)length, l_0 = rope->original_length, s = rope->factor;
    if (rope->scaling == ATTN_ROPE_NTK) return grown_theta(rope, s);
    if (rope->scaling == ATTN_ROPE_DYNAMIC && l > l_0) return grown_theta(rope, s * l / l_0 - (s - 1));
    return rope->theta;
}

/* the index of the pair that turns `rotations` times over the original length, as a real number */
static double index_of(const attn_rope *rope, double rotations) {
    const double two_pi = 0x1.921fb54442d18p+2;
    return (double)rope->dim * log(rope->original_length / (two_pi * rotations)) / (2 * log(rope->theta));
}

static attn_quad yarn(const attn_rope *rope, attn_quad f, size_t t) {
    const double low = fmax(floor(index_of(rope, rope->beta_fast)), 0);
    double high = fmin(ceil(index_of(rope, rope->beta_slow)), (double)rope->dim - 1);
    if (high == low) high += 0.001;
    const double ramp = fmin(fmax(((double)t - low) / (high - low), 0), 1);
    return f / rope->factor * ramp + f * (1 - (attn_quad)ramp);
}

static attn_quad llama3(const attn_rope *rope, attn_quad f) {
    const double two_pi = 0x1.921fb54442d18p+2, length = rope->original_length, wavelength = two_pi / (double)f;
    if (wavelength < length / rope->high_freq_factor) return f;
    if (wavelength > length / rope->low_freq_factor) return f / rope->factor;
    const attn_quad smooth =
        (attn_quad)((length / wavelength - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor));
    return (1 - smooth) * f / rope->factor + smooth * f;
}

void attn_rope_frequencies(const attn_rope *rope, size_t length, attn_quad *frequencies) {
    const attn_quad ratio = attn_quad_power(theta_of(rope, length), -(attn_quad)2 / (attn_quad)rope->dim);
    attn_quad f = 1; /* ratio^t: products of 113 bits leave more than 100 right */
    for (size_t t = 0; t < rope->dim / 2; t++, f *= ratio) {
        switch (rope->scaling) {
        case ATTN_ROPE_LINEAR: frequencies[t] = f / rope->factor; break;
        case ATTN_ROPE_YARN: frequencies[t] = yarn(rope, f, t); break;
        case ATTN_ROPE_LLAMA3: frequencies[t] = llama3(rope, f); break;
        default: frequencies[t] = f; break;
        }
    }
}
