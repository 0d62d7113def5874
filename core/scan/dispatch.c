/* scan_run.c: attn_scan_ functions for either type. */
#include "scan.h"

double attn_scan_flops(const attn_scan *scan) {
    /* a product for the exponent, two for the state, one for the output, each added, for each number of the state */
    return 7.0 * (double)scan->batch * (double)scan->n * (double)scan->channels * (double)scan->width *
           (double)scan->state;
}

size_t attn_scan_workspace(const attn_engine *engine, const attn_scan *scan) {
    return scan->dtype == ATTN_F64 ? attn_scan_workspace_f64(engine, scan) : attn_scan_workspace_f32(engine, scan);
}

attn_status attn_scan_run(const attn_engine *engine, const attn_scan *scan, const attn_scan_results *results,
                          void *workspace, const atomic_bool *cancel, attn_fault *fault) {
    return scan->dtype == ATTN_F64 ? attn_scan_run_f64(engine, scan, results, workspace, cancel, fault)
                                   : attn_scan_run_f32(engine, scan, results, workspace, cancel, fault);
}
