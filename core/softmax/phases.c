/* phases.c: the order of things in one run by tiles: pack, attend, merge, the stages asked for; and what is done
 * again in a wider range. */
#include "tile.h"

#include <string.h>

static void pack_item(void *arg, size_t item, size_t slot) {
    attn_plan *plan = arg;
    if (attn_plan_cancelled(plan)) return;
    attn_scratch scratch = ATTN_T(attn_scratch_of)(plan, slot);
    size_t pair = item / plan->key_tiles, tile = item % plan->key_tiles;
    size_t batch = pair / plan->problem->kv_heads, kv_head = pair % plan->problem->kv_heads;
    size_t first = tile * plan->tile_k, end = first + attn_plan_keys(plan, tile);
    attn_span open = attn_open_run(plan, batch, kv_head, first, end);
    if (open.lo >= open.hi && !plan->stages) return; /* nobody reads it */
    real *keys = (real *)(void *)(plan->workspace + plan->at_keys) + item * plan->tile_k * plan->problem->d_k;
    ATTN_T(attn_pack_keys)(plan, batch, kv_head, tile, keys, scratch.gather);
    if (plan->results->output.data != NULL && plan->d_v_padded > 0) {
        ATTN_T(attn_pack_values)(plan, batch, kv_head, tile);
    }
}

static bool wants_softmax(const attn_results *results) {
    return results->output.data != NULL || results->lse != NULL || results->weights != NULL ||
           results->mean_weights != NULL;
}

static void run_phase(attn_plan *plan, bool wanted, size_t items, void (*body)(void *, size_t, size_t)) {
    if (!wanted || items == 0 || attn_plan_cancelled(plan)) return;
    attn_pool_for(plan->pool, items, body, plan);
}

static void run_tiles(attn_plan *plan) {
    const attn_results *results = plan->results;
    size_t pairs = plan->problem->batch * plan->problem->kv_heads;
    bool softmax = wants_softmax(results), cells = attn_wants_cells(results);
    run_phase(plan, plan->packed && (softmax || cells), pairs * plan->key_tiles, pack_item);
    run_phase(plan, softmax, pairs * plan->row_tiles * plan->splits, ATTN_T(attn_fused_item));
    run_phase(plan, softmax && plan->splits > 1, pairs * plan->row_tiles, ATTN_T(attn_merge_item));
    run_phase(plan, cells, ATTN_T(attn_cells_items)(plan), ATTN_T(attn_cells_item));
    run_phase(plan, results->mean_weights != NULL, ATTN_T(attn_mean_items)(plan), ATTN_T(attn_mean_item));
}

attn_status ATTN_T(attn_execute)(attn_plan *plan, attn_fault *fault) {
    const attn_results *results = plan->results;
    const size_t pairs = plan->problem->batch * plan->problem->kv_heads;
    const bool asked = wants_softmax(results) || attn_wants_cells(results);
    plan->out_of_range = !ATTN_T(attn_settings_safe)(plan->problem);
    if (pairs * plan->n_k > 0) memset(plan->workspace + plan->at_odd, 0, pairs * plan->n_k);
    run_phase(plan, asked && plan->has_open_map, plan->problem->batch * plan->open_heads, attn_open_map_item);
    if (!plan->out_of_range) run_tiles(plan);
    if (!attn_plan_cancelled(plan) && asked) {
        attn_status status = ATTN_T(attn_wide_range)(plan, fault);
        if (status != ATTN_OK) return status;
    }
    if (!attn_plan_cancelled(plan) && (results->present_k != NULL || results->present_v != NULL))
        attn_pool_for(plan->pool, pairs * plan->key_tiles, ATTN_T(attn_present_item), plan);
    return attn_plan_cancelled(plan) ? ATTN_CANCELLED : ATTN_OK;
}
