// The usual mistakes of attention kernels, each as what it would have computed.
import { pathOf, post } from './service.js';
import { tensorOf } from './tensor.js';

const toTensor = (x) => (x?.data && !x.dtype ? x : tensorOf(x));
const without = (request, ...names) => Object.fromEntries(Object.entries(request).filter(([name]) => !names.includes(name)));

/** q, k, v of an /attention request as (batch, heads, n, d), and the way back for its output. plain: split by reshaping alone. */
export function canonical(request, plain = false) {
  const split = (tensor, heads) => {
    let { shape, data } = tensor;
    if (request.layout === 'bnhd' || heads) {
      const [b, n, h, d] = request.layout === 'bnhd' ? shape : [shape.length > 2 ? shape[0] : 1, shape.at(-2), heads, shape.at(-1) / heads];
      if (plain) return { shape: [b, h, n, d], data };
      const out = new Float64Array(data.length);
      for (let a = 0; a < b; a++) for (let i = 0; i < n; i++) for (let c = 0; c < h; c++) for (let e = 0; e < d; e++) out[((a * h + c) * n + i) * d + e] = data[((a * n + i) * h + c) * d + e];
      return { shape: [b, h, n, d], data: out };
    }
    if (shape.length === 2) shape = [1, 1, ...shape];
    if (shape.length === 3) shape = [shape[0], 1, shape[1], shape[2]];
    return { shape, data };
  };
  const heads = request.num_heads;
  const kvHeads = request.num_kv_heads ?? heads;
  const joined = (name) => {
    const now = split(toTensor(request[name]), name === 'q' ? heads : kvHeads);
    return now;
  };
  return { q: joined('q'), k: joined('k'), v: joined('v') };
}
/** A (batch, heads, n, d) result as the request's output is laid out. */
function uncanonical(request, { shape: [b, h, n, d], data }) {
  if (request.layout !== 'bnhd' && !request.num_heads) return data;
  const out = new Float64Array(data.length);
  for (let a = 0; a < b; a++) for (let c = 0; c < h; c++) for (let i = 0; i < n; i++) for (let e = 0; e < d; e++) out[((a * n + i) * h + c) * d + e] = data[((a * h + c) * n + i) * d + e];
  return out;
}

/** Softmax of each row of scores; −Infinity is left out. */
function softmax(scores, rows, cols) {
  const out = new Float64Array(scores.length);
  for (let at = 0; at < scores.length; at += cols) {
    let max = -Infinity;
    for (let j = 0; j < cols; j++) max = Math.max(max, scores[at + j]);
    if (max === -Infinity) continue;
    let total = 0;
    for (let j = 0; j < cols; j++) total += out[at + j] = Math.exp(scores[at + j] - max);
    for (let j = 0; j < cols; j++) out[at + j] /= total;
  }
  return out;
}
/** weights (b, h, n, m) times v (b, kv, m, d) */
function mix(weights, [b, h, n, m], v) {
  const [, kv, , d] = v.shape;
  const out = new Float64Array(b * h * n * d);
  for (let a = 0; a < b; a++) for (let c = 0; c < h; c++) {
    const g = Math.floor(c / (h / kv));
    for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) {
      const w = weights[((a * h + c) * n + i) * m + j];
      if (w) for (let e = 0; e < d; e++) out[((a * h + c) * n + i) * d + e] += w * v.data[((a * kv + g) * m + j) * d + e];
    }
  }
  return { shape: [b, h, n, d], data: out };
}

/** What both kinds need: the right stages in float64 (of /attention without a cache). */
async function stages(request, signal) {
  const { tensors } = await post('/attention', { ...request, dtype: 'float64', return: ['scores', 'scaled', 'capped', 'masked', 'weights'] }, { signal });
  const { q, k, v } = canonical(request);
  const shape = [q.shape[0], q.shape[1], q.shape[2], k.shape[2]];
  return { ...tensors, v, shape };
}

/** {key, applies(request), request(request) or output(request, stages)}: data of the output that the mistake gives. */
export const MISTAKES = [
  { key: 'noScale', request: (r) => ({ ...r, scale: '1' }), applies: (r) => r.scale !== '1' },
  { key: 'overD', request: (r) => ({ ...r, scale: '1/d_k' }), applies: (r) => r.scale !== '1/d_k' },
  { key: 'sqrtD', request: (r) => without(r, 'scale'), applies: (r) => r.scale !== undefined && r.scale !== '1/sqrt(d_k)' },
  { key: 'exp2', request: (r, info) => ({ ...r, scale: info.scale * Math.LN2 }), applies: (r) => !r.softcap && !r.bias },
  { key: 'modelScale', request: (r, info) => ({ ...r, scale: 1 / Math.sqrt(info.dk * info.heads) }), applies: (r, info) => info.heads > 1 && (r.scale ?? '1/sqrt(d_k)') === '1/sqrt(d_k)' },
  { key: 'ignoredCausal', request: (r) => ({ ...r, causal: false }), applies: (r) => r.causal },
  { key: 'addedCausal', request: (r) => ({ ...r, causal: true }), applies: (r) => !r.causal },
  { key: 'strictCausal', request: (r, info) => ({ ...r, query_offset: info.offset - 1 }), applies: (r, info) => r.causal && info.offset !== null },
  { key: 'lateCausal', request: (r, info) => ({ ...r, query_offset: info.offset + 1 }), applies: (r, info) => r.causal && info.offset !== null },
  { key: 'topLeft', request: (r) => ({ ...r, query_offset: r.query_offset === 'end' ? 0 : 'end' }), applies: (r, info) => (r.causal || r.window) && info.nq !== info.nk },
  { key: 'invertedMask', request: (r) => ({ ...r, mask: { shape: toTensor(r.mask).shape, data: Array.from(toTensor(r.mask).data, (x) => !x) } }), applies: (r) => r.mask },
  { key: 'ignoredMask', request: (r) => without(r, 'mask'), applies: (r) => r.mask },
  { key: 'addedMask', request: (r) => ({ ...without(r, 'mask'), bias: { shape: toTensor(r.mask).shape, data: Array.from(toTensor(r.mask).data, Number) } }), applies: (r) => r.mask && !r.bias },
  { key: 'ignoredBias', request: (r) => without(r, 'bias'), applies: (r) => r.bias },
  { key: 'ignoredPadding', request: (r) => without(r, 'kv_lengths'), applies: (r) => r.kv_lengths },
  { key: 'ignoredWindow', request: (r) => without(r, 'window'), applies: (r) => r.window },
  { key: 'ignoredSoftcap', request: (r) => without(r, 'softcap'), applies: (r) => r.softcap },
  { key: 'tiledHeads', applies: (r, info) => info.kv > 1 && info.kv < info.heads, output: async (r, _s, signal, info) => {
    const { q, k, v } = canonical(r);
    const tile = ({ shape: [b, kv, n, d], data }) => {
      const out = new Float64Array(b * info.heads * n * d);
      for (let a = 0; a < b; a++) for (let h = 0; h < info.heads; h++) out.set(data.subarray((a * kv + (h % kv)) * n * d, (a * kv + (h % kv) + 1) * n * d), (a * info.heads + h) * n * d);
      return { shape: [b, info.heads, n, d], data: out };
    };
    const { tensors } = await post('/attention', { ...without(r, 'layout', 'num_heads', 'num_kv_heads'), q: whole(q), k: whole(tile(k)), v: whole(tile(v)), dtype: 'float64', return: ['output'] }, { signal });
    return uncanonical(r, tensors.output);
  } },
  { key: 'plainReshape', applies: (r) => r.num_heads > 1 || r.layout === 'bnhd', output: async (r, _s, signal) => {
    const { q, k, v } = canonical(r, true);
    const { tensors } = await post('/attention', { ...without(r, 'layout', 'num_heads', 'num_kv_heads'), q: whole(q), k: whole(k), v: whole(v), dtype: 'float64', return: ['output'] }, { signal });
    return tensors.output.data;
  } },
  { key: 'unmerged', applies: (r, info) => info.heads > 1, output: async (r, s) => {
    const { shape: [b, h, n, d], data } = mix(s.weights.data, s.shape, s.v);
    if (r.num_heads || r.layout === 'bnhd') return data;
    const out = new Float64Array(data.length);
    for (let a = 0; a < b; a++) for (let c = 0; c < h; c++) for (let i = 0; i < n; i++) for (let e = 0; e < d; e++) out[((a * n + i) * h + c) * d + e] = data[((a * h + c) * n + i) * d + e];
    return out;
  } },
  { key: 'wrongAxis', output: async (r, s) => {
    const [b, h, n, m] = s.shape;
    const weights = new Float64Array(s.masked.data.length);
    for (let p = 0; p < b * h; p++) for (let j = 0; j < m; j++) {
      const column = softmax(Float64Array.from({ length: n }, (_, i) => s.masked.data[(p * n + i) * m + j]), 1, n);
      for (let i = 0; i < n; i++) weights[(p * n + i) * m + j] = column[i];
    }
    return uncanonical(r, mix(weights, s.shape, s.v));
  } },
  { key: 'transposed', applies: (_r, info) => info.nq === info.nk, output: async (r, s) => {
    const [b, h, n, m] = s.shape;
    const weights = new Float64Array(s.weights.data.length);
    for (let p = 0; p < b * h; p++) for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) weights[(p * n + i) * m + j] = s.weights.data[(p * n + j) * m + i];
    return uncanonical(r, mix(weights, s.shape, s.v));
  } },
  { key: 'noSoftmax', output: async (r, s) => uncanonical(r, mix(s.masked.data.map((x) => (x === -Infinity ? 0 : x)), s.shape, s.v)) },
  { key: 'zeroScores', applies: (_r, info) => info.blocks, output: async (r, s) => uncanonical(r, mix(softmax(s.masked.data.map((x) => (x === -Infinity ? 0 : x)), 0, s.shape[3]), s.shape, s.v)) },
  { key: 'zeroWeights', applies: (_r, info) => info.blocks, output: async (r, s) => {
    const weights = softmax(s.capped.data, 0, s.shape[3]);
    return uncanonical(r, mix(weights.map((w, at) => (s.masked.data[at] === -Infinity ? 0 : w)), s.shape, s.v));
  } },
  { key: 'lateSoftcap', applies: (r, info) => r.softcap && info.blocks, output: async (r, s) => uncanonical(r, mix(softmax(s.masked.data.map((x, at) => (x === -Infinity ? -r.softcap : s.capped.data[at])), 0, s.shape[3]), s.shape, s.v)) },
  { key: 'earlySoftcap', applies: (r) => r.softcap, output: async (r, s, _signal, info) => {
    const scores = s.scores.data.map((x, at) => (s.masked.data[at] === -Infinity ? -Infinity : info.scale * r.softcap * Math.tanh(x / r.softcap)));
    return uncanonical(r, mix(softmax(scores, 0, s.shape[3]), s.shape, s.v));
  } },
];
const whole = ({ shape, data }) => ({ shape, data: Array.from(data) });

export const MHA_MISTAKES = [
  { key: 'transposedProjections', request: (r) => ({ ...r, weight_layout: r.weight_layout === 'out_in' ? 'in_out' : 'out_in' }) },
  { key: 'noOutputProjection', request: (r) => without(r, 'w_o', 'b_o'), applies: (r) => r.w_o },
  { key: 'noBiases', request: (r) => without(r, 'b_q', 'b_k', 'b_v', 'b_o', 'b_qkv'), applies: (r) => r.b_q || r.b_k || r.b_v || r.b_o || r.b_qkv },
];

export const scaleOf = (scale, dk) => (scale === undefined || scale === null || scale === '1/sqrt(d_k)' ? 1 / Math.sqrt(dk) : scale === '1/d_k' ? 1 / dk : Number(scale));

/** Tries every mistake that could have been made; gives [{key, output}] where it could be computed. */
export async function tryMistakes(request, info, signal) {
  const mha = pathOf(request) === '/mha';
  const list = mha ? MISTAKES.filter((m) => m.request).concat(MHA_MISTAKES) : MISTAKES;
  const local = !mha && !request.past_k && info.cells <= 1e6;
  const right = local ? await stages(request, signal) : null;
  if (right) info.blocks = right.masked.data.includes(-Infinity);
  const found = await Promise.all(list.filter((m) => (m.request || local) && (!m.applies || m.applies(request, info))).map(async (m) => {
    try {
      if (m.output) return { key: m.key, output: await m.output(request, right, signal, info) };
      const { tensors } = await post(pathOf(request), { ...m.request(request, info), dtype: 'float64', return: ['output'] }, { signal });
      return { key: m.key, output: tensors.output.data };
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      return null; // a mistake that these shapes do not allow
    }
  }));
  return found.filter(Boolean);
}
