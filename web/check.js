// Check your own: a kernel's output beside the service's in float64, its error, and the mistake that explains it.
import { control, el } from './dom.js';
import { Heatmap } from './heatmap.js';
import { intake, parseJson, take as read } from './intake.js';
import { Legend } from './legend.js';
import { canonical, MHA_MISTAKES, MISTAKES, scaleOf, tryMistakes } from './mistakes.js';
import { full, short, ulp } from './numbers.js';
import { examples, walks } from './presets.js';
import { prepare } from './pyramid.js';
import { cells, pathOf, post, Problem, requestText, shapeOf } from './service.js';
import { shareBar } from './share.js';
import { matrices, matrix, nested, tensorOf } from './tensor.js';
import { t } from './text.js';

export const defaults = { request: '', output: '', type: 'float32', demo: 'overD' };
export const state = { ...defaults };
const EPS = { float64: 2 ** -52, float32: 2 ** -23, float16: 2 ** -10, bfloat16: 2 ** -7 };

let parts = {};
let changed = () => {};
let heat;
let legend;
let running = null;
let last = null;

function infoOf(request, weights) {
  const mha = pathOf(request) === '/mha';
  const [nq, nk] = weights.shape.slice(-2);
  const past = request.past_k ? shapeOf(request.past_k).at(-2) : 0;
  const offset = request.query_offset === undefined || request.query_offset === null ? past : typeof request.query_offset === 'number' ? request.query_offset : request.query_offset === 'end' && !request.kv_lengths ? nk - nq : null;
  if (mha) {
    const heads = request.num_heads;
    const kv = request.num_kv_heads ?? heads;
    const width = request.w_q ? shapeOf(request.w_q)[request.weight_layout === 'out_in' ? 0 : 1] : (shapeOf(request.w_qkv)[request.weight_layout === 'out_in' ? 0 : 1] * heads) / (heads + 2 * kv);
    return { heads, kv, dk: width / heads, nq, nk, offset, cells: cells(request), scale: scaleOf(request.scale, width / heads) };
  }
  const { q, k } = canonical(request);
  return { heads: q.shape[1], kv: k.shape[1], dk: q.shape[3], nq, nk, offset, cells: cells(request), scale: scaleOf(request.scale, q.shape[3]), q, k };
}

/** The bound of docs/numerics.md for every row of the output, (batch, heads, n_q); null where it does not apply. */
async function bounds(request, info, weights, eps, signal) {
  if (pathOf(request) === '/mha' || request.past_k || info.cells > 1e6) return null;
  const { q, k, v } = canonical(request);
  const positive = ({ shape, data }) => ({ shape, data: Array.from(data, Math.abs) });
  const { tensors } = await post('/attention', { q: positive(q), k: positive(k), v: { shape: [...k.shape.slice(0, 3), 1], data: Array(k.shape[0] * k.shape[1] * k.shape[2]).fill(0) }, dtype: 'float64', return: ['scores'] }, { signal });
  const [b, h, n, m] = [q.shape[0], q.shape[1], q.shape[2], k.shape[2]];
  const largest = new Float64Array(k.shape[0] * k.shape[1] * m);
  for (let p = 0; p < largest.length; p++) for (let e = 0; e < v.shape[3]; e++) largest[p] = Math.max(largest[p], Math.abs(v.data[p * v.shape[3] + e]));
  const out = new Float64Array(b * h * n);
  for (let a = 0; a < b; a++) for (let c = 0; c < h; c++) for (let i = 0; i < n; i++) {
    let s = 0;
    let most = 0;
    for (let j = 0; j < m; j++) {
      const at = ((a * h + c) * n + i) * m + j;
      if (weights.masked.data[at] === -Infinity) continue;
      const bias = Math.abs(weights.masked.data[at] - weights.capped.data[at]);
      s = Math.max(s, Math.abs(info.scale) * tensors.scores.data[at], weights.weights.data[at] >= eps ? bias : 0);
      most = Math.max(most, largest[(a * k.shape[1] + Math.floor(c / (h / k.shape[1]))) * m + j]);
    }
    out[(a * h + c) * n + i] = 8 * eps * (1 + (1 + info.dk / 16) * s + Math.log2(Math.max(1, m))) * most;
  }
  return { rows: out, b, h, n };
}

const worst = (got, want) => {
  let error = 0;
  let at = 0;
  for (let i = 0; i < want.length; i++) {
    const e = Math.abs(got[i] - want[i]);
    if (!(e <= error)) (error = Number.isNaN(e) ? Infinity : e), (at = i);
  }
  return { error, at };
};

async function compute() {
  running?.abort();
  const mine = (running = new AbortController());
  const { signal } = mine;
  parts.status.classList.remove('bad');
  parts.status.textContent = t('computing');
  parts.result.hidden = true;
  try {
    const { request } = await read(parts.request.value);
    if (!request) throw new Error(t('notRequest'));
    for (const name of ['return', 'return_weights', 'trace', 'format', 'reply_dtype', 'dtype']) delete request[name];
    const given = parts.output.value.trim() ? parseJson(parts.output.value) : parts.output.given;
    if (!given) throw new Error(t('pasteOutput'));
    const got = tensorOf(given.output ?? given);
    const { tensors } = await post(pathOf(request), { ...request, dtype: 'float64', return: ['output', 'weights', 'capped', 'masked'] }, { signal });
    const want = tensors.output;
    if (got.data.length !== want.data.length) throw new Error(t('outputShape', { want: want.shape.join(' × '), got: got.shape.join(' × ') }));
    const info = infoOf(request, tensors.weights);
    const bound = await bounds(request, info, tensors, EPS[state.type], signal);
    const tried = await tryMistakes(request, info, signal);
    if (signal.aborted) return;
    show(request, got, want, bound, tried);
    parts.status.textContent = '';
  } catch (error) {
    if (error.name === 'AbortError') return;
    parts.status.classList.add('bad');
    parts.status.textContent = error instanceof Problem ? `${error.title ?? ''}: ${error.detail ?? ''} ${error.pointer ?? ''}` : error.message;
  }
}

const place = (shape, at) => {
  const out = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    out.unshift(at % shape[axis]);
    at = Math.floor(at / shape[axis]);
  }
  return out.join(', ');
};

/** Bound of the element at a place of the output, as it is laid out. */
function boundAt(bound, request, want, at) {
  if (!bound) return null;
  const { b, h, n, rows } = bound;
  const d = want.data.length / (b * h * n);
  if (request.layout === 'bnhd' || request.num_heads) {
    const row = Math.floor(at / (h * d));
    return rows[(Math.floor(row / n) * h + (Math.floor(at / d) % h)) * n + (row % n)];
  }
  return rows[Math.floor(at / d)];
}

function show(request, got, want, bound, tried) {
  const { error, at } = worst(got.data, want.data);
  let ulps = 0;
  let ulpAt = 0;
  let outside = 0;
  let share = 0;
  let shareAt = 0;
  for (let i = 0; i < want.data.length; i++) {
    const e = Math.abs(got.data[i] - want.data[i]);
    const u = e / ulp(want.data[i], state.type);
    if (!(u <= ulps)) (ulps = u), (ulpAt = i);
    const limit = boundAt(bound, request, want, i);
    if (limit === null) continue;
    const part = e === 0 ? 0 : e / limit;
    if (!(part <= 1)) outside++;
    if (!(part <= share)) (share = part), (shareAt = i);
  }
  const size = Math.max(...want.data.map(Math.abs), 1e-30);
  const right = bound ? outside === 0 : error <= 64 * EPS[state.type] * size;
  const ranked = tried.map((m) => ({ ...m, ...(m.output.length === got.data.length ? worst(got.data, m.output) : { error: Infinity }) })).sort((a, b) => a.error - b.error);
  const best = ranked[0];
  const fits = !right && best && best.error < Math.min(error / 10, Math.max(1e-3, 64 * EPS[state.type]) * size);
  last = { request };
  const row = (name, value, note, data) => el('tr', {}, el('th', { scope: 'row', text: name }), el('td', { text: value, dataset: data ?? {} }), el('td', { text: note }));
  parts.verdict.textContent = right ? t(bound ? 'verdictWithin' : 'verdictClose') : fits ? t('verdictMistake', { mistake: t(`mistake_${best.key}`) }) : t('verdictUnknown');
  parts.verdict.className = right ? 'verdict good' : 'verdict bad';
  parts.figures.replaceChildren(el('table', { className: 'data' }, el('tbody', {},
    row(t('largestError'), full(error), t('atPlace', { place: place(want.shape, at), got: full(got.data[at]), want: full(want.data[at]) }), { derived: String(error), what: 'error' }),
    row(t('inUlp', { type: state.type }), short(ulps, 2), t('atPlace', { place: place(want.shape, ulpAt), got: full(got.data[ulpAt]), want: full(want.data[ulpAt]) }), { derived: String(ulps), what: 'ulp' }),
    bound ? row(t('ofBound'), `${short(share, share < 1 ? 4 : 1)} ×`, `${t('outsideBound', { n: outside, all: want.data.length })} (${place(want.shape, shareAt)})`, { derived: String(share), what: 'bound' }) : row(t('ofBound'), '–', t('noBound')))));
  parts.ranking.replaceChildren(el('table', { className: 'data' }, el('caption', { text: t('rankingOf') }),
    el('thead', {}, el('tr', {}, el('th', { scope: 'col', text: t('mistake') }), el('th', { scope: 'col', text: t('distance') }))),
    el('tbody', {}, [{ key: 'none', error }, ...ranked].sort((a, b) => a.error - b.error).slice(0, 8).map((m) => el('tr', { className: m.key === 'none' ? 'strong' : fits && m.key === best.key ? 'fits' : '' },
      el('th', { scope: 'row', text: t(`mistake_${m.key}`) }), el('td', { text: short(m.error, 4), dataset: { mistake: m.key, derived: String(m.error) } }))))));
  const index = Math.floor(at / (want.shape.at(-1) * want.shape.at(-2)));
  const w = matrix(want, index);
  const g = matrix({ shape: want.shape, data: got.data }, index);
  const data = Float64Array.from(w.data, (x, i) => g.data[i] - x);
  const model = prepare({ rows: w.rows, cols: w.cols, data, rules: null });
  const spread = Math.max(model.high, -model.low) || 1e-12;
  const look = { map: 'viridis', signed: true, pool: 'max', rangeName: 'matrix', name: t('error'), range: { low: -spread, high: spread } };
  parts.result.hidden = false;
  heat.title = `${t('errorMap')}${matrices(want) > 1 ? ` ${t('matrixN', { n: index })}` : ''}`;
  parts.mapTitle.textContent = heat.title;
  heat.rowTitle = t('row');
  heat.colTitle = t('column');
  heat.set(model, look, { rowLabels: String, colLabels: String, describe: (i, j) => [`${t('yours')} ${full(g.data[i * g.cols + j])}`, `${t('reference')} ${full(w.data[i * w.cols + j])}`] });
  legend.set(look, heat.block ?? 1);
}

/** Fills both areas: a request, and the output that a mistake would give. */
async function demo(key) {
  state.demo = key;
  const name = ['invertedMask', 'addedMask', 'ignoredMask'].includes(key) ? 'mask' : ['tiledHeads'].includes(key) ? 'grouped' : MHA_MISTAKES.some((m) => m.key === key) ? 'mha' : 'causal';
  let request;
  if (name === 'mha') request = structuredClone(walks.sentence);
  else {
    const { q, k, v } = name === 'grouped' ? examples.grouped() : examples.causal();
    const cut = (x) => [x[0].map((head) => head.slice(0, 5))];
    request = { q: cut(q), k: cut(k), v: cut(v), causal: true };
    if (name === 'mask') {
      delete request.causal;
      request.mask = [[1, 1, 0, 1, 1], [1, 1, 1, 0, 1], [1, 0, 1, 1, 1], [1, 1, 1, 1, 0], [0, 1, 1, 1, 1]];
    }
    if (key === 'lateSoftcap' || key === 'earlySoftcap') request.softcap = 2;
  }
  const { tensors } = await post(pathOf(request), { ...request, dtype: 'float64', return: ['weights'] });
  const info = infoOf(request, tensors.weights);
  let output;
  if (key === 'none') output = (await post(pathOf(request), { ...request, return: ['output'] })).tensors.output;
  else {
    const { tensors: shaped } = await post(pathOf(request), { ...request, return: ['output'] });
    const made = (await tryMistakes(request, info)).find((m) => m.key === key);
    output = made ? { shape: shaped.output.shape, data: Float32Array.from(made.output) } : shaped.output;
  }
  parts.request.value = requestText(request);
  parts.output.value = JSON.stringify(nested({ shape: output.shape, data: Array.from(output.data, (x) => Number(x.toPrecision(9))) }));
  save();
  return compute();
}
function save() {
  state.request = parts.request.value;
  state.output = parts.output.value;
  changed();
}

export function init(root, onChange) {
  changed = onChange;
  for (const node of root.querySelectorAll('[data-part]')) parts[node.dataset.part] = node;
  heat = new Heatmap({ title: '', rowTitle: '', colTitle: '', height: 420 });
  parts.map.append(heat.root);
  const files = root.querySelectorAll('input[type=file]');
  intake(parts.request, files[0], async (file) => {
    parts.request.value = requestText((await read(file)).request ?? {});
    save();
  });
  intake(parts.output, files[1], async (file) => {
    const { matrices: found } = await read(file);
    const tensor = found?.output ?? Object.values(found ?? {})[0];
    if (tensor) parts.output.value = JSON.stringify(nested(tensor));
    save();
  });
  parts.go.addEventListener('click', () => (save(), compute()));
  shareBar(parts.share, () => ({ path: pathOf(last.request), request: { ...last.request, dtype: 'float64' } }));
}
export function load() {
  parts.request.value = state.request;
  parts.output.value = state.output;
  return enter();
}
export function enter() {
  legend = new Legend();
  parts.legend.replaceChildren(legend.root);
  parts.share.redraw();
  const demos = ['none', 'noScale', 'overD', 'exp2', 'ignoredCausal', 'strictCausal', 'invertedMask', 'addedMask', 'tiledHeads', 'lateSoftcap', 'wrongAxis', 'transposed', 'zeroWeights', 'transposedProjections'].filter((key) => key === 'none' || MISTAKES.concat(MHA_MISTAKES).some((m) => m.key === key));
  parts.controls.replaceChildren(
    control(t('kernelType'), ['float32', 'float16', 'bfloat16', 'float64'].map((name) => [name, name]), { id: 'check-type', value: state.type, change: (value) => {
      state.type = value;
      changed();
      if (parts.request.value) compute();
    } }),
    control(t('demo'), demos.map((key) => [key, t(`mistake_${key}`)]), { id: 'check-demo', value: state.demo, change: (value) => demo(value) }));
  if (!parts.request.value) return demo(state.demo);
  return compute();
}
