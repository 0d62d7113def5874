/* rope.h: rotary positions (inside core/ only; attn_rope: attention.h). */
#ifndef ATTN_ROPE_H
#define ATTN_ROPE_H

#include "../attention.h"

void attn_rope_turn_back_f32(const attn_engine *engine, const attn_problem *problem, const void *workspace,
                             const attn_out_view *q, const attn_out_view *k);
void attn_rope_turn_back_f64(const attn_engine *engine, const attn_problem *problem, const void *workspace,
                             const attn_out_view *q, const attn_out_view *k);
size_t attn_rope_workspace_f32(const attn_problem *problem);
size_t attn_rope_workspace_f64(const attn_problem *problem);
void attn_rope_rotate_f32(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                          void *workspace, attn_problem *rotated);
void attn_rope_rotate_f64(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                          void *workspace, attn_problem *rotated);

/* Bytes of workspace of attn_rope_rotate: the rotated q and new k, and tables of O(n dim). SIZE_MAX if they do not fit.
 */
static inline size_t attn_rope_workspace(const attn_problem *problem) {
    return problem->dtype == ATTN_F64 ? attn_rope_workspace_f64(problem) : attn_rope_workspace_f32(problem);
}

/* Rotates q and new k, on the threads of the pool, and writes the problem that is left: its q and k stand in the
 * workspace, and it has no rope. Also writes q_rotated and k_rotated if `results` asks for them. */
static inline void attn_rope_rotate(const attn_engine *engine, const attn_problem *problem, const attn_results *results,
                                    void *workspace, attn_problem *rotated) {
    (problem->dtype == ATTN_F64 ? attn_rope_rotate_f64 : attn_rope_rotate_f32)(engine, problem, results, workspace,
                                                                               rotated);
}

/* The transpose of the rotation, in place: turns gradients by the rotated q and new k into those by q and k.
 * `workspace` is what attn_rope_rotate has left. Data NULL: there is none. */
static inline void attn_rope_turn_back(const attn_engine *engine, const attn_problem *problem, const void *workspace,
                                       const attn_out_view *q, const attn_out_view *k) {
    (problem->dtype == ATTN_F64 ? attn_rope_turn_back_f64 : attn_rope_turn_back_f32)(engine, problem, workspace, q, k);
}

#endif
