/* compensated.h: Kahan's addition (CACM 8, 1965), for numbers and for vectors of them (inside core/ only). */
#ifndef ATTN_COMPENSATED_H
#define ATTN_COMPENSATED_H

/* sum += x; `lost` is what the roundings so far added too much and is taken off the next x first. sum - lost is the
 * sum. All three are of one type that has + and -; sum and lost are variables or elements. */
#define ATTN_ADD_COMPENSATED(sum, lost, x)                                         \
    do {                                                                           \
        const __typeof__(+(sum)) wanted_ = (x) - (lost), total_ = (sum) + wanted_; \
        (lost) = (total_ - (sum)) - wanted_;                                       \
        (sum) = total_;                                                            \
    } while (0)

#endif
