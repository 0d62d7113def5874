/* quad.h: a number type of at least 106 bits, for the angles of positions (inside core/ only).
 *
 * An angle of position p is wanted to the last bit of a double however large p is: the product of p < 2^53 and a
 * frequency needs 53 bits for its whole turns and as many behind them. The compilers' 128-bit type has 113; it is
 * slow, so it serves a few thousand numbers a request, never one for each element. */
#ifndef ATTN_QUAD_H
#define ATTN_QUAD_H

#if defined __x86_64__
typedef __float128 attn_quad;
#else
typedef long double attn_quad; /* of 113 bits on aarch64 */
#endif

/* x^y for x > 0 */
attn_quad attn_quad_power(attn_quad x, attn_quad y);

/* The cosine and sine of an angle of any size up to 2^53, each within 1 ulp of a double. */
void attn_quad_turn(attn_quad angle, double *cosine, double *sine);

#endif
