// Which rule of a request blocks a cell of its scores. The service decides; this only says why.
import { size, tensorOf } from './tensor.js';
import { shapeOf } from './service.js';

export const RULES = ['mask', 'bias', 'kv_lengths', 'causal', 'window'];
const bit = Object.fromEntries(RULES.map((name, i) => [name, 1 << i]));

/** Index of the first number of each leading position when `tensor` broadcasts to `shape`, aligned at the right. */
function broadcast(tensor, shape, index) {
  const rank = shape.length;
  const own = Array(rank - tensor.shape.length).fill(1).concat(tensor.shape);
  let base = 0;
  let rest = index;
  const steps = [];
  for (let axis = rank - 1, step = 1; axis >= 0; step *= own[axis], axis--) steps[axis] = own[axis] === 1 ? 0 : step;
  for (let axis = rank - 3; axis >= 0; axis--) {
    base += (rest % shape[axis]) * steps[axis];
    rest = Math.floor(rest / shape[axis]);
  }
  return { data: tensor.data, base, row: steps[rank - 2], column: steps[rank - 1] };
}

/**
 * The rules for matrix number `index` of scores of the given shape, as plain data that a worker can take.
 * batched: whether the first axis of the shape is that of the batch.
 */
export function rulesOf(request, shape, index) {
  const rows = shape.at(-2);
  const cols = shape.at(-1);
  const mha = request.x !== undefined;
  const rank = shapeOf(mha ? request.x : request.q ?? []).length;
  const batched = rank > 2;
  const batch = batched ? Math.floor(index / (size(shape.slice(0, -2)) / shape[0])) : 0;
  const pick = (value) => (value?.shape || Array.isArray(value) ? tensorOf(value).data[batch] : value);
  const length = request.kv_lengths == null ? null : pick(request.kv_lengths);
  const past = request.past_k ? shapeOf(request.past_k).at(-2) : 0;
  let offset = request.query_offset ?? past;
  if (offset === 'end') offset = (length ?? cols) - rows;
  else offset = pick(offset);
  const part = (name) => (request[name] == null ? null : broadcast(tensorOf(request[name]), shape, index));
  return { rows, cols, length, offset, causal: !!request.causal, window: request.window ?? null, mask: part('mask'), bias: part('bias') };
}

/** The bits of the rules that block cell (i, j); 0: open. */
export function blockedBy(rules, i, j) {
  const { length, offset, causal, window, mask, bias } = rules;
  let blocked = 0;
  if (mask && !mask.data[mask.base + i * mask.row + j * mask.column]) blocked |= bit.mask;
  if (bias && bias.data[bias.base + i * bias.row + j * bias.column] === -Infinity) blocked |= bit.bias;
  if (length !== null && j >= length) blocked |= bit.kv_lengths;
  if (causal && j > i + offset) blocked |= bit.causal;
  if (window && ((window[0] >= 0 && j < i + offset - window[0]) || (window[1] >= 0 && j > i + offset + window[1]))) blocked |= bit.window;
  return blocked;
}
export const namesOf = (blocked) => RULES.filter((name) => blocked & bit[name]);

/** The bits of all cells, and whether any is blocked. */
export function blockedCells(rules) {
  const { rows, cols } = rules;
  const all = new Uint8Array(rows * cols);
  const { length, causal, window, mask, bias } = rules;
  if (length === null && !causal && !window && !mask && !bias) return all;
  for (let i = 0, at = 0; i < rows; i++) for (let j = 0; j < cols; j++) all[at++] = blockedBy(rules, i, j);
  return all;
}
