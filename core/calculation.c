/* calculation.c: the rows of ATTN_KIND_LIST, and the choice among them. */
#include "calculation.h"

#include <assert.h>

#define ROW(KIND, name) [KIND] = &attn_calculation_##name,
static const attn_calculation *const rows[] = {ATTN_KIND_LIST(ROW)};
#undef ROW

#define ROWS (sizeof rows / sizeof *rows)

static const attn_calculation *row_of(const attn_problem *problem) {
    assert((size_t)problem->kind < ROWS);
    return rows[problem->kind];
}

const char *attn_kind_name(size_t index) { return index < ROWS ? rows[index]->name : NULL; }

size_t attn_workspace(const attn_engine *engine, const attn_problem *problem, const attn_results *results) {
    return row_of(problem)->workspace(engine, problem, results);
}

attn_status attn_run(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                     void *workspace, const atomic_bool *cancel, attn_fault *fault) {
    return row_of(problem)->run(engine, problem, results, workspace, cancel, fault);
}

double attn_flops(const attn_problem *problem) { return row_of(problem)->flops(problem); }
