/* scan.h: selective state-space scans, the recurrences of Mamba and Mamba-2 (inside core/; public types: attention.h).
 */
#ifndef ATTN_SCAN_H
#define ATTN_SCAN_H

#include "../attention.h"

size_t attn_scan_workspace_f32(const attn_engine *engine, const attn_scan *scan);
size_t attn_scan_workspace_f64(const attn_engine *engine, const attn_scan *scan);
attn_status attn_scan_run_f32(const attn_engine *engine, const attn_scan *scan, const attn_scan_results *results,
                              void *workspace, const atomic_bool *cancel, attn_fault *fault);
attn_status attn_scan_run_f64(const attn_engine *engine, const attn_scan *scan, const attn_scan_results *results,
                              void *workspace, const atomic_bool *cancel, attn_fault *fault);

#endif
