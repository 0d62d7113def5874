// Compare: two requests side by side, and their difference.
import { control, visible } from './dom.js';
import { Heatmap } from './heatmap.js';
import { intake, take as read } from './intake.js';
import { Legend } from './legend.js';
import { full, short } from './numbers.js';
import { examples, walks } from './presets.js';
import { prepare } from './pyramid.js';
import { rulesOf } from './rules.js';
import { cells, pathOf, post, Problem } from './service.js';
import { shareBar } from './share.js';
import { matrices, matrix } from './tensor.js';
import { t } from './text.js';

export const defaults = { source: 'causal', change: 'causal', request: '', other: '', show: 'weights', head: '3' };
export const state = { ...defaults };
const MOST = 4194304;

/** What B differs in from A; only: where it makes sense. */
const changes = {
  causal: { make: (r) => ({ ...r, causal: !r.causal }) },
  noScale: { make: (r) => ({ ...r, scale: '1' }) },
  overD: { make: (r) => ({ ...r, scale: '1/d_k' }) },
  window: { make: (r) => ({ ...r, window: r.window ? null : [2, 0] }) },
  softcap: { make: (r) => ({ ...r, softcap: r.softcap ? 0 : 2 }) },
  pruned: { make: (r) => ({ ...r, head_mask: Array.from({ length: r.num_heads }, (_, h) => (h ? 1 : 0)) }), only: (r) => pathOf(r) === '/mha', show: 'output' },
  double: { make: (r) => ({ ...r, dtype: r.dtype === 'float64' ? 'float32' : 'float64' }) },
  own: { make: (r) => r },
};

let parts = {};
let changed = () => {};
let maps = [];
let legends = [];
let pair = null;
let running = null;

const source = () => (state.source in examples ? examples[state.source]() : structuredClone(walks[state.source] ?? walks.worked));
async function requests() {
  const a = state.request ? (await read(state.request)).request : source();
  if (!a) throw new Error(t('notRequest'));
  const { tokens: _1, ...rest } = a;
  const change = changes[state.change] ?? changes.causal;
  if (state.change === 'own') {
    const b = state.other ? (await read(state.other)).request : a;
    if (!b) throw new Error(t('notRequest'));
    return [a, b];
  }
  if (change.only && !change.only(rest)) throw new Error(t('changeCannot'));
  return [a, change.make(a)];
}

async function compute() {
  running?.abort();
  const mine = (running = new AbortController());
  parts.status.classList.remove('bad');
  parts.status.textContent = '';
  const slow = setTimeout(() => (parts.status.textContent = t('computing')), 200);
  try {
    const both = await requests();
    const names = ['weights', 'scaled', 'output'];
    const asked = both.map((request) => {
      const clean = { ...request, return: names };
      for (const name of ['return_weights', 'trace', 'format', 'reply_dtype']) delete clean[name];
      if (cells(clean) > MOST) throw new Error(t('tooManyCells', { n: cells(clean), most: MOST }));
      return clean;
    });
    const replies = await Promise.all(asked.map((request) => post(pathOf(request), request, { signal: mine.signal, binary: cells(request) > 20000 })));
    pair = { requests: both, asked, replies: replies.map((reply) => reply.tensors) };
    draw();
    parts.status.textContent = '';
  } catch (error) {
    if (error.name === 'AbortError') return;
    parts.status.classList.add('bad');
    parts.status.textContent = error instanceof Problem ? `${error.title ?? ''}: ${error.detail ?? ''} ${error.pointer ?? ''}` : error.message;
  } finally {
    clearTimeout(slow);
  }
}

function draw() {
  if (!pair) return;
  const name = state.show;
  const tensors = pair.replies.map((reply) => reply[name]);
  controls();
  if (tensors[0].shape.join() !== tensors[1].shape.join()) {
    parts.status.classList.add('bad');
    parts.status.textContent = t('shapesDiffer', { a: tensors[0].shape.join(' × '), b: tensors[1].shape.join(' × ') });
    return;
  }
  const index = Math.min(+state.head || 0, matrices(tensors[0]) - 1);
  const weights = name !== 'output';
  const models = tensors.map((tensor, n) => {
    const m = matrix(tensor, index);
    return prepare({ ...m, rules: weights ? rulesOf(pair.requests[n], tensor.shape, index) : null });
  });
  const [a, b] = models;
  const data = Float64Array.from(a.data, (x, at) => b.data[at] - x);
  const difference = prepare({ rows: a.rows, cols: a.cols, data, rules: null });
  difference.blocked = a.blocked.map((bits, at) => (bits && b.blocked[at] ? bits : 0));
  const signed = name !== 'weights';
  const most = Math.max(...models.map((m) => Math.max(m.high, -m.low)));
  const range = signed ? { low: -most || -1, high: most || 1 } : { low: 0, high: a.cols >= 64 ? most : 1 };
  const spread = Math.max(difference.high, -difference.low) || 1e-12;
  const looks = [{ map: 'viridis', signed, pool: 'max', rangeName: signed || a.cols >= 64 ? 'shared' : 'unit', range }, { map: 'viridis', signed: true, pool: 'max', rangeName: 'matrix', range: { low: -spread, high: spread } }];
  const label = (request, list) => (i) => (list?.[i] === undefined ? String(i) : `${i} ${visible(list[i])}`);
  [a, b, difference].forEach((model, n) => {
    const request = pair.requests[n === 1 ? 1 : 0];
    const keys = request.key_tokens ?? (request.context ? null : model.rows === model.cols ? request.tokens : null);
    const look = { ...looks[n === 2 ? 1 : 0], name: n === 2 ? t('difference') : t(`stage_${name}`) };
    maps[n].title = ['A', 'B', t('difference')][n];
    maps[n].rowTitle = t('query');
    maps[n].colTitle = weights ? t('key') : t('feature');
    maps[n].set(model, look, { rowLabels: label(request, request.tokens), colLabels: weights ? label(request, keys) : String, describe: (i, j) => (n === 2 ? [`A ${full(a.data[i * a.cols + j])}`, `B ${full(b.data[i * a.cols + j])}`] : []) });
    legends[n].set(look, maps[n].block ?? 1);
  });
  let where = [0, 0];
  let largest = 0;
  let sum = 0;
  for (let at = 0; at < data.length; at++) {
    sum += Math.abs(data[at]);
    if (Math.abs(data[at]) > largest) (largest = Math.abs(data[at])), (where = [Math.floor(at / a.cols), at % a.cols]);
  }
  parts.summary.textContent = largest ? t('differenceIs', { largest: short(largest, 6), i: where[0], j: where[1], mean: (sum / data.length).toPrecision(4) }) : t('noDifference');
  parts.summary.dataset.derived = String(largest);
}

function controls() {
  const set = (name, again) => (value) => {
    state[name] = value;
    if (name === 'source') state.request = '';
    if (name === 'change' && changes[value].show) state.show = changes[value].show;
    changed();
    return again ? compute() : draw();
  };
  const sources = [...Object.keys(examples).filter((name) => name !== 'large').map((name) => [name, t(`example_${name}`)]), ...Object.keys(walks).map((name) => [name, t(`walk_${name}`)])];
  const n = pair ? matrices(pair.replies[0][state.show]) : 1;
  const active = document.activeElement?.id;
  parts.controls.replaceChildren(
    control('A', [...sources, ...(state.request ? [['', t('pasted')]] : [])], { id: 'cmp-source', value: state.request ? '' : state.source, change: set('source', true) }),
    control(t('bDiffers'), Object.keys(changes).map((name) => [name, t(`change_${name}`)]), { id: 'cmp-change', value: state.change, change: set('change', true) }),
    control(t('show'), ['weights', 'scaled', 'output'].map((name) => [name, t(`stage_${name}`)]), { id: 'cmp-show', value: state.show, change: set('show') }),
    n > 1 ? control(t('head'), Array.from({ length: n }, (_, i) => [i, t('headN', { n: i })]), { id: 'cmp-head', value: state.head, change: set('head') }) : '');
  if (active?.startsWith('cmp-')) document.getElementById(active)?.focus();
}

export function init(root, onChange) {
  changed = onChange;
  for (const node of root.querySelectorAll('[data-part]')) parts[node.dataset.part] = node;
  maps = ['A', 'B', 'B − A'].map((title, n) => {
    const heat = new Heatmap({ title, rowTitle: '', colTitle: '', height: 420 });
    parts[`map${n}`].append(heat.root);
    return heat;
  });
  for (const [area, name] of [[parts.textA, 'request'], [parts.textB, 'other']]) {
    intake(area, area.parentNode.querySelector('input[type=file]'), async (file) => {
      area.value = await file.text();
      area.dispatchEvent(new Event('change'));
    });
    area.addEventListener('change', () => {
      state[name] = area.value.trim();
      if (name === 'other') state.change = 'own';
      changed();
      compute();
    });
  }
  shareBar(parts.share, () => ({ path: pathOf(pair.asked[1]), request: pair.asked[1] }));
}
export function load() {
  parts.textA.value = state.request;
  parts.textB.value = state.other;
  return enter();
}
export function enter() {
  legends = [0, 1, 2].map((n) => {
    const legend = new Legend();
    parts[`legend${n}`].replaceChildren(legend.root);
    return legend;
  });
  parts.share.redraw();
  controls();
  return compute();
}
