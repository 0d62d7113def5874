// Explore: the weights of any request, or weights alone, as heatmaps, lines and sentences.
import { MAPS } from './colour.js';
import { button, control, download, el, visible } from './dom.js';
import { csv, png, svgText } from './export.js';
import { HeadGrid, PAGE } from './heads.js';
import { Heatmap } from './heatmap.js';
import { intake, take as read } from './intake.js';
import { Legend } from './legend.js';
import { Lines } from './lines.js';
import { full, short } from './numbers.js';
import { examples } from './presets.js';
import { prepareAside } from './pyramid.js';
import { rulesOf } from './rules.js';
import { cells, pathOf, post, Problem, requestText } from './service.js';
import { downloads, shareBar } from './share.js';
import { matrices, matrix, writeSafetensors } from './tensor.js';
import { t } from './text.js';

export const defaults = { example: 'causal', request: '', show: 'weights', head: '0', map: 'viridis', norm: 'linear', range: 'auto', pool: 'max', order: 'index', top: 5, threshold: 0, page: 0 };
export const state = { ...defaults };
const BINARY = 20000; // score cells from which the reply is asked for as safetensors
const MOST = 33554432; // cells kept at once

let parts = {};
let changed = () => {};
let loaded = null; // {request or null, tensors, labels, names}
let running = null;
let models = [];
let heat;
let grid;
let legend;
let lines;
let picked = null;

const stagesOf = (tensors) => ['weights', 'scores', 'scaled', 'capped', 'masked'].filter((name) => tensors[name]).concat(Object.keys(tensors).filter((name) => !['weights', 'scores', 'scaled', 'capped', 'masked', 'output', 'lse', 'q', 'k', 'v', 'heads', 'present_k', 'present_v'].includes(name)));

function rowLabel(i) {
  const token = loaded?.labels.tokens?.[i];
  return token === undefined ? String(i) : `${i} ${visible(token)}`;
}
function colLabel(j) {
  const { labels, cross } = loaded ?? { labels: {} };
  const token = (labels.key_tokens ?? (cross ? null : labels.tokens))?.[j];
  return token === undefined ? String(j) : `${j} ${visible(token)}`;
}

// ---- getting the numbers ----
function busy(text) {
  parts.status.textContent = text;
  parts.status.classList.remove('bad');
  parts.cancel.hidden = !text;
}
function fail(error) {
  parts.cancel.hidden = true;
  if (error.name === 'AbortError') return (parts.status.textContent = t('cancelled'));
  parts.status.classList.add('bad');
  parts.status.textContent = error instanceof Problem ? `${error.title ?? ''}: ${error.detail ?? ''}${error.pointer !== undefined ? ` (${error.pointer})` : ''}` : error.message;
}

async function compute(input) {
  running?.abort();
  const mine = (running = new AbortController());
  const slow = setTimeout(() => busy(t('computing')), 200);
  try {
    const { request, matrices: alone, labels } = input;
    if (alone) await accept({ request: null, tensors: alone, labels: labels ?? {}, cross: alone[Object.keys(alone)[0]].shape.at(-1) !== alone[Object.keys(alone)[0]].shape.at(-2) }, mine.signal);
    else {
      const clean = { ...request };
      for (const name of ['return', 'return_weights', 'trace', 'format', 'reply_dtype']) delete clean[name];
      const n = cells(clean);
      if (n > MOST) throw new Error(t('tooManyCells', { n, most: MOST }));
      const names = n > 4 * BINARY ? ['weights', 'lse'] : ['weights', 'scaled', 'scores', 'masked', 'lse'];
      const asked = { ...clean, return: names };
      const { tensors, timing } = await post(pathOf(clean), asked, { signal: mine.signal, binary: n > BINARY });
      const [rows, cols] = tensors.weights.shape.slice(-2);
      await accept({ request: clean, asked, tensors, timing, labels: clean, cross: !!clean.context || rows !== cols || !!clean.key_tokens }, mine.signal);
    }
    busy('');
  } catch (error) {
    fail(error);
  } finally {
    clearTimeout(slow);
  }
}

async function accept(next, signal) {
  const stages = stagesOf(next.tensors);
  const show = stages.includes(state.show) ? state.show : stages[0];
  const tensor = next.tensors[show];
  if (tensor.shape.length < 2) throw new Error(t('rankTooLow', { name: show, rank: tensor.shape.length }));
  const n = matrices(tensor);
  const made = [];
  for (let index = 0; index < n; index++) {
    const m = matrix(tensor, index);
    made.push(await prepareAside({ data: m.data, rows: m.rows, cols: m.cols, rules: next.request ? rulesOf(next.request, tensor.shape, index) : null }, signal));
  }
  loaded = next;
  state.show = show;
  models = made;
  aggregates.clear();
  if (!['mean', 'max'].includes(state.head) && !(Number(state.head) < n)) state.head = '0';
  picked = null;
  controls();
  draw();
}

/** Mean or largest over heads, named as such; a cell is blocked where it is in every head. */
const aggregates = new Map();
function aggregate(kind) {
  if (aggregates.has(kind)) return aggregates.get(kind);
  const [{ rows, cols }] = models;
  const data = new Float32Array(rows * cols);
  for (let at = 0; at < data.length; at++) {
    let value = kind === 'max' ? -Infinity : 0;
    let n = 0;
    for (const model of models) {
      if (model.blocked[at]) continue;
      value = kind === 'max' ? Math.max(value, model.data[at]) : value + model.data[at];
      n++;
    }
    data[at] = n ? (kind === 'max' ? value : value / models.length) : 0;
  }
  const blocked = new Uint8Array(models[0].blocked);
  for (const model of models) for (let at = 0; at < blocked.length; at++) blocked[at] &= model.blocked[at] ? 255 : 0;
  const out = { pending: prepareAside({ data, rows, cols, rules: null }).then((model) => Object.assign(out, model, { blocked })) };
  aggregates.set(kind, out);
  return out;
}

// ---- how it looks ----
const isWeights = () => state.show === 'weights' || !loaded.request;
function style(model) {
  const signed = !isWeights() || models.some((m) => m.low < 0);
  let { range } = state;
  if (range === 'auto') range = signed ? 'shared' : model.cols >= 64 || models.some((m) => m.high > 1) ? 'shared' : 'unit';
  const log = state.norm === 'log' && !signed;
  const over = range === 'shared' ? models : [model];
  let low = Math.min(0, ...over.map((m) => m.low));
  let high = Math.max(...over.map((m) => m.high));
  if (range === 'unit') [low, high] = [0, 1];
  if (signed) {
    high = Math.max(Math.abs(low), Math.abs(high)) || 1;
    low = -high;
  }
  if (log) low = Math.min(1e-6, high / 10);
  return { map: state.map, signed, log, pool: state.pool, name: t(`stage_${isWeights() ? 'weights' : state.show}`), rangeName: range, range: range === 'row' && !signed && !log ? 'row' : { low, high } };
}

const headName = (index) => {
  const { shape } = loaded.tensors[state.show];
  const perBatch = shape.length > 3 ? shape.at(-3) : shape.length === 3 && loaded.request && !loaded.request.num_heads && pathOf(loaded.request) === '/attention' ? 1 : shape.length > 2 ? shape.at(-3) : 1;
  const batch = Math.floor(index / perBatch);
  const head = index % perBatch;
  const many = models.length / perBatch > 1;
  return [many ? t('batchN', { n: batch }) : '', perBatch > 1 || !many ? t('headN', { n: head }) : ''].filter(Boolean).join(', ');
};
const groupName = (index) => {
  const kv = loaded.request?.num_kv_heads ?? (loaded.request?.k?.shape ?? null)?.at(-3) ?? (Array.isArray(loaded.request?.k?.[0]?.[0]?.[0]) ? loaded.request.k[0].length : 0);
  const { shape } = loaded.tensors[state.show];
  const heads = shape.length > 2 ? shape.at(-3) : 1;
  return kv && kv < heads ? ` · KV ${Math.floor((index % heads) / (heads / kv))}` : '';
};
function currentModel() {
  if (state.head === 'mean' || state.head === 'max') return aggregate(state.head);
  return models[+state.head] ?? models[0];
}
const title = () => (state.head === 'mean' ? t('meanOfHeads', { n: models.length }) : state.head === 'max' ? t('maxOfHeads', { n: models.length }) : headName(+state.head) + groupName(+state.head));

function describe(i, j) {
  const model = currentModel();
  const out = [];
  const at = i * model.cols + j;
  if (!model.blocked[at] && isWeights() && model.cols <= 4096) {
    let rank = 1;
    for (let x = 0; x < model.cols; x++) if (!model.blocked[i * model.cols + x] && model.data[i * model.cols + x] > model.data[at]) rank++;
    out.push(t('rankInRow', { rank, n: model.open[i] }));
  }
  if (loaded.tensors.scaled && /^\d+$/.test(state.head)) out.push(`${t('stage_scaled')} ${full(matrix(loaded.tensors.scaled, +state.head).data[at])}`);
  return out;
}

function sorted() {
  const list = models.map((model, index) => ({ model, index, title: headName(index) + groupName(index) }));
  if (state.order === 'entropy') {
    const of = (m) => m.entropy.reduce((a, b) => a + b, 0) / Math.max(1, m.rows);
    list.sort((a, b) => of(a.model) - of(b.model));
  }
  return list;
}

function draw() {
  if (!loaded) return;
  const model = currentModel();
  if (model.pending && !model.rows) return model.pending.then(draw);
  const look = style(model);
  parts.title.textContent = `${t(`stage_${isWeights() ? 'weights' : state.show}`)}: ${title()}`;
  parts.shape.textContent = t('rowsByCols', { rows: model.rows, cols: model.cols });
  heat.title = `${parts.title.textContent}, ${parts.shape.textContent}`;
  heat.rowTitle = t('query');
  heat.colTitle = t('key');
  heat.margins = isWeights();
  heat.set(model, look, { rowLabels: rowLabel, colLabels: colLabel, describe });
  legend.set(look, heat.block ?? 1);
  parts.heads.hidden = models.length < 2;
  if (models.length > 1) {
    const list = sorted();
    const shown = list.slice(state.page * PAGE, (state.page + 1) * PAGE);
    grid.set(shown, { ...look, range: look.range === 'row' ? 'row' : look.range }, /^\d+$/.test(state.head) ? +state.head : -1);
    parts.pages.hidden = list.length <= PAGE;
    parts.pages.replaceChildren(...(list.length > PAGE ? [button('←', () => turn(-1), { disabled: state.page === 0, 'aria-label': t('earlier') }), el('span', { text: t('windowOf', { from: state.page * PAGE, to: Math.min(list.length, (state.page + 1) * PAGE) - 1, all: list.length }) }),
      button('→', () => turn(1), { disabled: (state.page + 1) * PAGE >= list.length, 'aria-label': t('later') })] : []));
  }
  const weights = isWeights();
  parts.lines.hidden = parts.tablePart.hidden = !weights;
  if (weights) {
    lines.set(model, { rowLabels: rowLabel, colLabels: colLabel, top: +state.top, threshold: +state.threshold, head: +state.head });
    drawTable();
  }
  follow(heat.pinned);
}
function turn(by) {
  state.page += by;
  changed();
  draw();
}

/** Sentence of a row: its three greatest weights and the rest. */
function sentence(model, i) {
  const best = []; // the three greatest, greatest first
  let rest = 0;
  for (let j = 0; j < model.cols; j++) {
    const w = model.data[i * model.cols + j];
    if (model.blocked[i * model.cols + j]) continue;
    if (best.length < 3 || w > best[2][0]) {
      best.push([w, j]);
      best.sort((a, b) => b[0] - a[0]);
      if (best.length > 3) rest += best.pop()[0];
    } else rest += w;
  }
  if (!model.open[i]) return t('rowBlocked');
  const named = best.map(([w, j]) => `${t('key')} ${colLabel(j)} ${short(w, 2)}`);
  return named.join(t('comma')) + (model.open[i] > 3 ? `${t('comma')}${t('others')} ${short(rest, 2)}` : '');
}
function drawTable() {
  if (!parts.tablePart.open) return;
  const model = currentModel();
  const n = Math.min(model.rows, 200);
  const cellsToo = model.cols <= 24;
  parts.table.replaceChildren(el('table', { className: 'data wide' }, el('caption', { text: n < model.rows ? t('firstRows', { n, all: model.rows }) : t('rowsAsSentences') }),
    el('thead', {}, el('tr', {}, el('th', { scope: 'col', text: t('query') }), el('th', { scope: 'col', text: t('attendsTo') }), el('th', { scope: 'col', text: t('entropyBits') }),
      cellsToo ? Array.from({ length: model.cols }, (_, j) => el('th', { scope: 'col', text: colLabel(j) })) : null)),
    el('tbody', {}, Array.from({ length: n }, (_, i) => el('tr', {}, el('th', { scope: 'row', text: rowLabel(i) }), el('td', { text: sentence(model, i) }), el('td', { text: `${short(model.entropy[i])} / ${short(Math.log2(Math.max(1, model.open[i])))}`, dataset: { entropy: String(model.entropy[i]) } }),
      cellsToo ? Array.from({ length: model.cols }, (_, j) => {
        const at = i * model.cols + j;
        return el('td', { text: model.blocked[at] ? t('blocked') : short(model.data[at]), dataset: { value: String(model.data[at]), row: i, column: j } });
      }) : null)),
    cellsToo ? el('tr', {}, el('th', { scope: 'row', text: t('received') }), el('td'), el('td'), Array.from({ length: model.cols }, (_, j) => el('td', { text: short(model.received[j]), dataset: { received: String(model.received[j]) } }))) : null)));
}

/** The picked or hovered row, in words and on the tokens. */
function follow(cell) {
  const model = currentModel();
  if (!model.rows || !isWeights()) return parts.row.replaceChildren();
  const i = cell ? cell[0] : picked;
  lines.focus(i ?? null);
  if (i === null || i === undefined) return parts.row.replaceChildren(el('span', { className: 'hint', text: t('rowHint') }));
  const tokens = [];
  if (model.cols <= 200) {
    for (let j = 0; j < model.cols; j++) {
      const at = i * model.cols + j;
      const token = el('span', { className: model.blocked[at] ? 'tint blocked' : 'tint', text: colLabel(j) });
      if (!model.blocked[at] && model.data[at] > 0) token.style.background = `color-mix(in srgb, var(--accent) ${Math.round(70 * Math.min(1, model.data[at]))}%, transparent)`;
      tokens.push(token);
    }
  }
  parts.row.replaceChildren(el('p', {}, el('b', { text: `${t('query')} ${rowLabel(i)}: ` }), sentence(model, i), t('stop')), el('div', { className: 'tints' }, tokens));
}

function controls() {
  const set = (name) => (value) => {
    state[name] = value;
    changed();
    if (name === 'show') reshow();
    else draw();
  };
  const shape = loaded?.tensors[state.show]?.shape ?? [];
  const active = document.activeElement?.id;
  parts.controls.replaceChildren(
    loaded && stagesOf(loaded.tensors).length > 1 ? control(t('show'), stagesOf(loaded.tensors).map((name) => [name, t(`stage_${name}`)]), { id: 'ex-show', value: state.show, change: set('show') }) : '',
    models.length > 1 ? control(shape.length > 3 && shape[0] > 1 ? t('batchHead') : t('head'), [...models.map((_, i) => [i, headName(i)]), ['mean', t('meanOfHeads', { n: models.length })], ['max', t('maxOfHeads', { n: models.length })]], { id: 'ex-head', value: state.head, change: set('head') }) : '',
    control(t('range'), ['auto', 'unit', 'matrix', 'row', 'shared'].map((name) => [name, t(`range_${name}`)]), { id: 'ex-range', value: state.range, change: set('range') }),
    control(t('norm'), [['linear', t('linear')], ['log', t('log')]], { id: 'ex-norm', value: state.norm, change: set('norm') }),
    control(t('colours'), MAPS.map((name) => [name, t(`map_${name}`)]), { id: 'ex-map', value: state.map, change: set('map') }),
    control(t('pooling'), [['max', t('largestOf')], ['mean', t('meanOf')]], { id: 'ex-pool', value: state.pool, change: set('pool') }),
    models.length > 1 ? control(t('order'), [['index', t('byIndex')], ['entropy', t('byEntropy')]], { id: 'ex-order', value: state.order, change: set('order') }) : '');
  parts.lineControls.replaceChildren(
    control(t('topK'), 'number', { id: 'ex-top', min: 1, max: 50, value: state.top, change: (v) => set('top')(Math.max(1, Math.min(50, +v || 1))) }),
    control(t('threshold'), 'number', { id: 'ex-threshold', min: 0, max: 1, step: 0.01, value: state.threshold, change: (v) => set('threshold')(+v || 0) }));
  if (active?.startsWith('ex-')) document.getElementById(active)?.focus();
}
const reshow = () => accept(loaded, undefined).catch(fail);

const view = () => ({ model: currentModel(), style: style(currentModel()), rowLabels: rowLabel, colLabels: colLabel, titles: { rows: t('query'), columns: t('key') }, title: `attentiond · ${parts.title.textContent}` });

async function choose(name) {
  state.example = name;
  state.request = '';
  state.head = '0';
  state.page = 0;
  changed();
  const request = examples[name]();
  parts.text.value = name === 'large' ? '' : pretty(request);
  marks();
  await compute({ request });
}
const pretty = (request) => JSON.stringify(request, null, 1).replace(/\n\s*(?=[\d\]-])/g, ' ').replace(/\[ +/g, '[');
function marks() {
  for (const chip of parts.examples.children) chip.setAttribute('aria-pressed', String(chip.dataset.name === state.example && !state.request));
}
async function enterText() {
  try {
    const input = await read(parts.text.value);
    state.request = input.request || input.matrices ? JSON.stringify(JSON.parse(parts.text.value)) : '';
    changed();
    marks();
    await compute(input);
  } catch (error) {
    if (error instanceof SyntaxError) state.request = parts.text.value;
    fail(error);
  }
}

export function init(root, onChange, open) {
  changed = onChange;
  for (const node of root.querySelectorAll('[data-part]')) parts[node.dataset.part] = node;
  const events = { hover: (cell) => follow(cell), pick: (cell) => {
    picked = cell ? cell[0] : null;
    if (cell && isWeights()) lines.turnTo(cell[0]);
    follow(cell);
  }, painted: (block) => legend && loaded && legend.set(style(currentModel()), block) };
  heat = new Heatmap({ title: '', rowTitle: t('query'), colTitle: t('key'), margins: true, events });
  legend = new Legend();
  grid = new HeadGrid((index) => {
    state.head = String(index);
    changed();
    controls();
    draw();
    parts.title.scrollIntoView({ block: 'nearest' });
  });
  lines = new Lines({ hover: (i) => follow(i === null ? heat.pinned : [i, 0]), pick: (i) => ((picked = picked === i ? null : i), follow(null)) });
  parts.map.append(heat.root);
  parts.legend.append(legend.root);
  parts.heads.append(grid.root, (parts.pages = el('div', { className: 'row' })));
  parts.lineBox.append(lines.root);
  parts.tablePart.addEventListener('toggle', drawTable);
  parts.go.addEventListener('click', enterText);
  parts.cancel.addEventListener('click', () => running?.abort());
  intake(parts.text, parts.file, async (file) => {
    try {
      const input = await read(file);
      state.request = '';
      state.example = '';
      marks();
      parts.text.value = input.request && file.size < 200000 ? requestText(input.request) : '';
      parts.text.placeholder = file.name;
      await compute(input);
    } catch (error) {
      fail(error);
    }
  });
  parts.walk.addEventListener('click', async () => {
    if (loaded?.request && !(await open('walk', loaded.request))) parts.status.textContent = t('walkCannot');
  });
  shareBar(parts.share, () => (loaded?.request ? { path: pathOf(loaded.request), request: loaded.asked } : { path: '/attention', request: {} }));
}

export async function load() {
  parts.legend.replaceChildren((legend = new Legend()).root);
  enterWords();
  if (state.request) {
    parts.text.value = state.request;
    marks();
    const head = state.head;
    try {
      const input = await read(state.request);
      state.head = head;
      await compute(input);
    } catch (error) {
      fail(error);
    }
    return;
  }
  const { head, page } = state;
  const request = (examples[state.example] ?? examples.causal)();
  parts.text.value = state.example === 'large' ? '' : pretty(request);
  Object.assign(state, { head, page });
  marks();
  await compute({ request });
}
function enterWords() {
  parts.examples.replaceChildren(...Object.keys(examples).map((name) => button(t(`example_${name}`), () => choose(name), { dataset: { name }, 'aria-pressed': 'false' })));
  marks();
  parts.share.redraw();
  downloads(parts.downloads, [
    ['PNG', async () => download(`${state.show}.png`, await png(view()), 'image/png')],
    ['SVG', () => download(`${state.show}.svg`, svgText(view()), 'image/svg+xml')],
    ['CSV', () => download(`${state.show}.csv`, csv(view()), 'text/csv')],
    ['safetensors', () => download(`${state.show}.safetensors`, writeSafetensors({ [state.show]: loaded.tensors[state.show] }), 'application/octet-stream')],
  ]);
}
/** The language has changed, or the view is shown again. */
export function enter() {
  parts.legend.replaceChildren((legend = new Legend()).root);
  enterWords();
  controls();
  if (loaded) draw();
  else return load();
}
/** Called with a request from elsewhere. */
export function take(request) {
  state.request = requestText(request);
  return true;
}
