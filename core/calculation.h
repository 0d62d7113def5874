/* calculation.h: what computes an attention problem: one row of functions for each attn_kind (inside core/ only).
 *
 * A new calculation is a file, or a folder, that defines its row, attn_calculation_NAME, and a line of ATTN_KIND_LIST
 * in attention.h. attn_workspace, attn_run and attn_flops choose the row by the problem's `kind`; their contracts are
 * those of the functions here.
 */
#ifndef ATTN_CALCULATION_H
#define ATTN_CALCULATION_H

#include "attention.h"

typedef struct attn_calculation {
    const char *name; /* as requests spell it */
    size_t (*workspace)(const attn_engine *engine, const attn_problem *problem, const attn_results *results);
    attn_status (*run)(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                       void *workspace, const atomic_bool *cancel, attn_fault *fault);
    double (*flops)(const attn_problem *problem);
} attn_calculation;

#define ATTN_DECLARE(KIND, name) extern const attn_calculation attn_calculation_##name;
ATTN_KIND_LIST(ATTN_DECLARE)
#undef ATTN_DECLARE

#endif
