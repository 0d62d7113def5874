// The walk-through: every matrix of one request, each number with its arithmetic, every input open to change.
import { css, table } from './colour.js';
import { button, control, el, visible } from './dom.js';
import { explain, sum } from './explain.js';
import { scaleLesson, maskLesson, headLesson } from './lessons.js';
import { MatrixTable, formula } from './matrix.js';
import { full, short } from './numbers.js';
import { walks } from './presets.js';
import { blockedBy, namesOf, rulesOf } from './rules.js';
import { pathOf, post, Problem } from './service.js';
import { shareBar } from './share.js';
import { t } from './text.js';
import { matrix } from './tensor.js';

const STEPS = ['input', 'project', 'scores', 'scale', 'mask', 'softmax', 'output'];
export const defaults = { preset: 'worked', step: 0, request: '' };
export const state = { ...defaults };
let request = structuredClone(walks.worked);
let undo = [];
let calc = null;
let parts = {};
let root;
let changed = () => {};
let signature = '';
let running = null;
let picked = null;
let expanded = false;

/** Sizes and matrices of a trace, heads of q, k, v and heads side by side, as the formulas have them. */
function calculation(used, tensors) {
  const all = {};
  const put = (id, rows, cols, data) => (all[id] = { rows, cols, data });
  const inputs = ['x', 'context', 'w_q', 'w_k', 'w_v', 'w_o', 'bias'].filter((name) => used[name]);
  for (const name of inputs) {
    if (name === 'bias' && (!Array.isArray(used.bias[0]) || Array.isArray(used.bias[0][0]))) continue;
    put(name, used[name].length, used[name][0].length, used[name].flat());
  }
  const side = (tensor) => {
    const d = tensor.shape.at(-1);
    const n = tensor.shape.at(-2);
    const h = tensor.shape.length > 2 ? tensor.shape[0] : 1;
    const data = new Float64Array(n * h * d);
    for (let a = 0; a < h; a++) for (let i = 0; i < n; i++) for (let c = 0; c < d; c++) data[i * h * d + a * d + c] = tensor.data[(a * n + i) * d + c];
    return { rows: n, cols: h * d, data, d, h };
  };
  const source = (name) => tensors[name] ?? { shape: [used[name].length, used[name][0].length], data: Float64Array.from(used[name].flat()) };
  for (const name of ['q', 'k', 'v']) all[name] = side(source(name));
  const heads = all.q.h;
  const stages = ['scores', 'scaled', 'capped', 'masked', 'weights'].filter((name) => tensors[name]);
  for (const name of stages) for (let h = 0; h < heads; h++) all[`${name}:${h}`] = matrix(tensors[name], h);
  if (tensors.heads && used.w_o) put('heads', tensors.heads.shape[0], tensors.heads.shape[1], tensors.heads.data);
  put('output', tensors.output.shape[0], tensors.output.shape[1], tensors.output.data);
  const shape = tensors.weights.shape;
  const rules = Array.from({ length: heads }, (_, h) => rulesOf(used, shape, h));
  return {
    request: used, tensors, all, stages, heads, kv: all.k.h, group: heads / all.k.h, dk: all.q.d, dv: all.v.d, nq: shape.at(-2), nk: shape.at(-1),
    has: (id) => id in all, size: (id) => [all[id].rows, all[id].cols], at: (id, i, j) => all[id].data[i * all[id].cols + j],
    blocked: (h, i, j) => namesOf(blockedBy(rules[h], i, j)),
  };
}

const label = (tokens, i) => (tokens?.[i] !== undefined ? `${i} ${visible(tokens[i])}` : String(i));
const rowLabel = (i) => label(calc.request.tokens, i);
const keyLabel = (j) => label(calc.request.key_tokens ?? (calc.request.context ? null : calc.request.tokens), j);

/** Which matrices a step shows, in order. */
function plan() {
  const { heads, request: used } = calc;
  const each = (name) => Array.from({ length: heads }, (_, h) => `${name}:${h}`);
  const mha = calc.has('x');
  return [
    mha ? ['x', ...(used.context ? ['context'] : [])] : ['q', 'k', 'v'],
    mha ? ['w_q', 'q', 'w_k', 'k', 'w_v', 'v'] : [],
    each('scores'),
    each('scaled').concat(calc.stages.includes('capped') ? each('capped') : []),
    (calc.has('bias') ? ['bias'] : []).concat(each('masked')),
    each('weights'),
    used.w_o ? ['heads', 'w_o', 'output'] : ['output'],
  ];
}

function math(id) {
  const [name, h] = id.split(':');
  const sub = calc.heads > 1 && h !== undefined ? ` ${t('headN', { n: h })}: ` : '';
  const from = calc.request.context ? 'C' : 'X';
  const scale = calc.request.scale;
  const scaled = scale === undefined || scale === '1/sqrt(d_k)' ? 'Q Kᵀ ÷ √d_k' : scale === '1/d_k' ? 'Q Kᵀ ÷ d_k' : `Q Kᵀ · ${scale}`;
  const mha = calc.has('x');
  return sub + { x: 'X', context: 'C', w_q: 'W_Q', w_k: 'W_K', w_v: 'W_V', w_o: 'W_O', bias: 'B', q: mha ? 'Q = X W_Q' : 'Q', k: mha ? `K = ${from} W_K` : 'K', v: mha ? `V = ${from} W_V` : 'V',
    scores: 'S = Q Kᵀ', scaled, capped: `c·tanh(S ÷ c)`, masked: t('maskedMath'), weights: 'A = softmax(M)', heads: 'H = A V', output: calc.has('w_o') ? 'O = H W_O' : calc.heads > 1 ? 'O = concat(A V)' : 'O = A V' }[name];
}

const editable = (id) => ['x', 'context', 'w_q', 'w_k', 'w_v', 'w_o', 'bias'].includes(id) || (!calc.has('x') && ['q', 'k', 'v'].includes(id));

function buildTable(id) {
  const [rows, cols] = calc.size(id);
  const name = id.split(':')[0];
  const overKeys = ['scores', 'scaled', 'capped', 'masked', 'weights', 'bias'].includes(name);
  const keyRows = ['context', 'k', 'v'].includes(name);
  const isWeight = name.startsWith('w_');
  const bands = { q: calc.dk, w_q: calc.dk, k: calc.dk, w_k: calc.dk, v: calc.dv, w_v: calc.dv, heads: calc.dv }[name];
  const tone = name === 'weights' ? 'weights' : overKeys && name !== 'bias' ? 'signed' : editable(id) ? 'input' : 'plain';
  return new MatrixTable({
    id, rows, cols, tone, name: `${t(`matrix_${name}`)} ${id.includes(':') ? t('headN', { n: id.split(':')[1] }) : ''}`, math: math(id),
    rowLabels: isWeight ? String : keyRows ? keyLabel : rowLabel, colLabels: overKeys ? keyLabel : String,
    bands: calc.heads > 1 ? bands : 0, extra: name === 'weights' ? t('rowSum') : null,
    edit: editable(id) ? (i, j, text) => edit(id, i, j, text) : null,
    hover: (i, j) => over(i === null ? null : [id, i, j]),
    pick: (i, j) => (name === 'masked' ? toggleMask(+id.split(':')[1], i, j) : pick([id, i, j])),
  });
}

function build() {
  parts.tables = {};
  const steps = plan();
  parts.figure.replaceChildren(...steps.map((ids, step) => {
    if (!ids.length) return null;
    const made = ids.map((id) => (parts.tables[id] = buildTable(id)).root);
    const boxes = step === 1 ? [0, 2, 4].map((n) => el('div', { className: 'pair' }, made[n], made[n + 1])) : made;
    return el('section', { className: 'card', dataset: { step }, 'aria-label': t(`step_${STEPS[step]}`) },
      el('h3', {}, el('button', { type: 'button', className: 'plain', onclick: () => go(step) }, el('span', { className: 'number', text: String(step + 1) }), t(`step_${STEPS[step]}`))),
      step === 4 ? el('p', { className: 'hint', text: t('maskHint') }) : null,
      step === 0 || step === 1 ? el('p', { className: 'hint', text: t('editHint') }) : null,
      el('div', { className: 'boxes' }, boxes), step === 5 ? ramp('viridis', '0', '1') : step === 2 ? ramp('signed', t('negative'), t('positive')) : null);
  }).filter(Boolean));
}

/** The colours of a card, with their ends. */
function ramp(name, low, high) {
  const bar = el('canvas', { width: 256, height: 1, 'aria-hidden': 'true' });
  const ctx = bar.getContext('2d');
  for (let l = 0; l < 256; l++) (ctx.fillStyle = css(table(name), l)), ctx.fillRect(l, 0, 1, 1);
  return el('p', { className: 'ramp' }, low, bar, high);
}

function fill() {
  const spread = (name) => {
    let most = 0;
    for (const [id, m] of Object.entries(calc.all)) if (id.startsWith(name)) for (const x of m.data) if (Number.isFinite(x)) most = Math.max(most, Math.abs(x));
    return { low: -1.4 * most || -1, high: 1.4 * most || 1 }; // the ends of the map are too dark for so few numbers
  };
  for (const [id, grid] of Object.entries(parts.tables)) {
    const [name, h] = id.split(':');
    const m = calc.all[id];
    const range = grid.tone === 'weights' ? { low: 0, high: 1 } : grid.tone === 'signed' ? spread(`${name}:`) : null;
    const marks = name === 'masked' || name === 'weights';
    const ends = name === 'weights' ? Array.from({ length: m.rows }, (_, i) => m.data.subarray(i * m.cols, (i + 1) * m.cols).reduce((a, b) => a + b, 0)) : null;
    grid.fill(m.data, { range, ends, blocked: marks ? (i, j) => calc.blocked(+h, i, j) : null, shape: shapeText(id) });
  }
  parts.empty.textContent = Array.from({ length: calc.nq }, (_, i) => i)
    .filter((i) => calc.tensors.lse.data[i] === -Infinity).map((i) => t('nothingToAttend', { row: rowLabel(i) })).join(' ');
}
function shapeText(id) {
  const [rows, cols] = calc.size(id);
  const banded = calc.heads > 1 && ['q', 'k', 'v', 'heads'].includes(id);
  return banded ? `${rows} × ${calc.all[id].h ?? calc.heads}·${cols / (calc.all[id].h ?? calc.heads)}` : `${rows} × ${cols}`;
}

async function run() {
  running?.abort();
  const mine = (running = new AbortController());
  const slow = setTimeout(() => status(t('computing')), 200);
  const used = structuredClone(request);
  try {
    const { tensors } = await post(pathOf(used), { ...used, trace: true }, { signal: mine.signal });
    calc = calculation(used, tensors);
    status('');
    const now = JSON.stringify([calc.nq, calc.nk, calc.heads, calc.kv, Object.entries(calc.all).map(([id, m]) => [id, m.rows, m.cols]), used.tokens, used.key_tokens, used.scale, document.documentElement.lang]);
    if (now !== signature) {
      signature = now;
      build();
    }
    fill();
    parts.lessonFor = null;
    show();
  } catch (error) {
    if (error.name === 'AbortError') return;
    fail(error);
  } finally {
    clearTimeout(slow);
  }
}

/** Keeps the last good result, marks the cell at fault, says what the service said. */
function fail(error) {
  status(error instanceof Problem ? `${t('refused')} ${error.detail ?? error.title}${error.pointer ? ` (${error.pointer})` : ''}` : String(error), true);
  const [, name, i, j] = /^\/(\w+)\/(\d+)\/(\d+)$/.exec(error.pointer ?? '') ?? [];
  if (name && parts.tables?.[name]) parts.tables[name].bad(+i, +j);
}
function status(text, bad = false) {
  parts.status.textContent = text;
  parts.status.classList.toggle('bad', bad);
}

function keep() {
  undo.push(JSON.stringify(request));
  if (undo.length > 200) undo.shift();
  parts.undo.disabled = false;
}
function update(change) {
  keep();
  change(request);
  state.request = JSON.stringify(request) === JSON.stringify(walks[state.preset]) ? '' : JSON.stringify(request);
  parts.reset.disabled = !state.request;
  controls();
  changed();
  return run();
}
function edit(id, i, j, text) {
  const clean = text.trim().replace('−', '-').replace(',', '.');
  if (clean === '' || clean === '-') return;
  const value = Number.isFinite(Number(clean)) ? Number(clean) : text;
  update((r) => (r[id][i][j] = value));
}
function toggleMask(h, i, j) {
  update((r) => {
    const heads = calc.heads;
    r.mask ??= calc.tensors.weights.shape.length > 2
      ? Array.from({ length: heads }, () => Array.from({ length: calc.nq }, () => Array(calc.nk).fill(true)))
      : Array.from({ length: calc.nq }, () => Array(calc.nk).fill(true));
    const plane = Array.isArray(r.mask[0][0]) ? r.mask[h] : r.mask;
    plane[i][j] = !plane[i][j];
    if (!r.mask.flat(2).includes(false)) delete r.mask;
  });
}

// ---- the explanation of a cell ----
let hovered = null;
function over(cell) {
  hovered = cell;
  drawExplanation();
}
function pick(cell) {
  picked = picked && cell && picked.join() === cell.join() ? null : cell;
  expanded = false;
  drawExplanation();
}
let drawn = null; // what the explanation shows: drawn anew only for another, so that a click on it is not lost
function drawExplanation() {
  for (const grid of Object.values(parts.tables ?? {})) grid.unmark();
  const cell = hovered ?? picked;
  const same = drawn && drawn.calc === calc && drawn.expanded === expanded && drawn.cell === cell?.join() && drawn.lang === document.documentElement.lang;
  drawn = { calc, expanded, cell: cell?.join(), lang: document.documentElement.lang };
  if (!cell || !calc?.has(cell[0])) {
    parts.cell.replaceChildren(el('p', { className: 'hint', text: t('cellHint') }));
    return;
  }
  const [id, i, j] = cell;
  const grid = parts.tables[id];
  grid?.pickMark(i, j);
  const [name, h] = id.split(':');
  const overKeys = h !== undefined;
  const where = overKeys ? t('cellOf', { query: rowLabel(i), key: keyLabel(j), rows: t('query'), columns: t('key') }) : t('cellAt', { i, j });
  const title = el('h3', {}, `${t(`matrix_${name}`)}${h !== undefined && calc.heads > 1 ? `, ${t('headN', { n: h })}` : ''}: ${where}`);
  const e = explain(calc, id, i, j);
  if (e) for (const [source, kind, y, x] of e.sources) parts.tables[source]?.mark(kind, y, x);
  if (same) return;
  if (!e) {
    parts.cell.replaceChildren(title, el('p', { className: 'arithmetic' }, full(calc.at(id, i, j))), el('p', { className: 'hint', text: t('inputCell') }));
    return;
  }
  const out = [title];
  const result = () => el('span', { className: 'result', dataset: { value: String(e.result) }, text: full(e.result) });
  const more = (hidden) => (hidden ? [' ', button(t('more', { n: hidden }), () => ((expanded = true), drawExplanation()), { className: 'link' })] : []);
  if (e.nothing) out.push(el('p', { text: t('rowBlocked') }), el('p', { className: 'arithmetic' }, '= ', result()));
  else if (e.rules?.length) out.push(el('p', { text: `${t('blockedBy')} ${e.rules.map((rule) => t(`rule_${rule}`)).join(', ')}.` }), el('p', { className: 'arithmetic' }, '= ', result()));
  else if (e.numerator) {
    const { text, hidden } = sum(e.terms, expanded);
    out.push(el('p', { className: 'arithmetic' }, `${e.numerator} ÷ (`, text, ...more(hidden), ') = ', result()),
      el('p', { className: 'note', text: t('softmaxNote', { exp: short(e.exp, 6), sum: short(e.expSum, 6), rowSum: short(e.rowSum, 7) }) }));
  } else {
    const { text, hidden } = sum(e.terms, expanded);
    out.push(el('p', { className: 'arithmetic' }, e.factor !== undefined ? `${full(e.factor)}·(` : '', text, ...more(hidden), e.factor !== undefined ? ')' : '', ' = ', result()));
  }
  parts.cell.replaceChildren(...out);
}

// ---- steps ----
function go(step, announce = true) {
  state.step = Math.max(0, Math.min(STEPS.length - 1, step));
  show(announce);
  changed();
}
function show(announce = false) {
  const step = STEPS[state.step];
  for (const card of parts.figure.children) card.classList.toggle('current', +card.dataset.step === state.step);
  for (const [i, item] of [...parts.list.children].entries()) item.firstChild.setAttribute('aria-current', i === state.step ? 'step' : 'false');
  parts.previous.disabled = state.step === 0;
  parts.next.disabled = state.step === STEPS.length - 1;
  parts.where.textContent = t('stepOf', { n: state.step + 1, all: STEPS.length, name: t(`step_${step}`) });
  parts.say.textContent = announce ? parts.where.textContent : '';
  if (!calc) return;
  const used = calc.request;
  parts.story.replaceChildren(el('p', {}, t(`story_${step}`, { d: calc.dk, n: calc.nq, m: calc.nk })), ...notes(step, used).map((text) => el('p', { className: 'note', text })));
  drawExplanation();
  const key = `${step} ${document.documentElement.lang}`;
  if (parts.lessonFor !== key) {
    parts.lessonFor = key;
    const lesson = { project: headLesson, scale: scaleLesson, mask: maskLesson }[step];
    parts.lesson.replaceChildren();
    lesson?.(parts.lesson, calc, { rowLabel, keyLabel });
  }
}
function notes(step, used) {
  const out = [];
  if (step === 'project' && calc.heads > 1) out.push(t('noteHeads', { h: calc.heads, d: calc.dk, n: calc.nq }));
  if (step === 'project' && calc.kv < calc.heads) out.push(t('noteGrouped', { h: calc.heads, kv: calc.kv }));
  if (step === 'scores') {
    const m = calc.all['scores:0'];
    let symmetric = m.rows === m.cols && m.rows > 1;
    for (let i = 0; symmetric && i < m.rows; i++) for (let j = 0; j < i; j++) symmetric &&= m.data[i * m.cols + j] === m.data[j * m.cols + i];
    if (symmetric) out.push(t('noteSymmetric'));
  }
  if (step === 'mask') {
    if (used.kv_lengths) out.push(t('notePadding'));
    if (used.causal && calc.nq !== calc.nk) out.push(t('noteAlign'));
    out.push(t('noteAnd'));
  }
  if (step === 'softmax') out.push(t('noteRow'));
  return out;
}

// ---- controls ----
function controls() {
  const r = request;
  const set = (name, value) => update((x) => (value === undefined ? delete x[name] : (x[name] = value)));
  const whole = (text) => (text === '' ? undefined : Number(text));
  const width = r.w_q?.[0]?.length;
  const kvWidth = r.w_k?.[0]?.length;
  const vWidth = r.w_v?.[0]?.length;
  const choices = width ? Array.from({ length: width }, (_, i) => i + 1).filter((h) => width % h === 0 && (kvWidth * h) % width === 0 && vWidth % ((kvWidth * h) / width) === 0 && h % ((kvWidth * h) / width) === 0) : [];
  const preset = control(t('example'), [...Object.keys(walks).map((name) => [name, t(`walk_${name}`)]), ...(state.preset === 'own' ? [['own', t('walk_own')]] : [])],
    { value: state.preset, id: 'walk-preset', change: (name) => choose(name) });
  const scale = [['1/sqrt(d_k)', '1/√d_k'], ['1/d_k', '1/d_k'], ['1', '1']];
  const value = r.scale ?? '1/sqrt(d_k)';
  if (!scale.some(([v]) => v === String(value))) scale.push([String(value), String(value)]);
  const windowAt = (side) => (r.window && r.window[side] >= 0 ? r.window[side] : '');
  const setWindow = (side, text) => update((x) => {
    const next = [...(x.window ?? [-1, -1])];
    next[side] = text === '' ? -1 : Number(text);
    if (next[0] < 0 && next[1] < 0) delete x.window;
    else x.window = next;
  });
  const active = document.activeElement?.id;
  parts.controls.replaceChildren(preset,
    control(t('causal'), 'checkbox', { id: 'walk-causal', value: !!r.causal, change: (on) => set('causal', on || undefined) }),
    r.causal && calc && calc.nq !== calc.nk ? control(t('alignment'), [['start', t('alignStart')], ['end', t('alignEnd')]], { id: 'walk-align', value: r.query_offset === 'end' ? 'end' : 'start', change: (v) => set('query_offset', v === 'end' ? 'end' : undefined) }) : '',
    el('fieldset', {}, el('legend', { text: t('window') }),
      control(t('left'), 'number', { id: 'walk-left', min: 0, value: windowAt(0), placeholder: '∞', change: (v) => setWindow(0, v) }),
      control(t('right'), 'number', { id: 'walk-right', min: 0, value: windowAt(1), placeholder: '∞', change: (v) => setWindow(1, v) })),
    control(t('keyLength'), 'number', { id: 'walk-length', min: 0, value: r.kv_lengths?.[0] ?? '', placeholder: String(calc?.nk ?? ''), change: (v) => set('kv_lengths', v === '' ? undefined : [whole(v)]) }),
    control(t('scale'), scale, { id: 'walk-scale', value: String(value), change: (v) => set('scale', v === '1/sqrt(d_k)' ? undefined : Number.isFinite(Number(v)) && v !== '1' ? Number(v) : v) }),
    control(t('softcap'), 'number', { id: 'walk-softcap', min: 0, step: 0.5, value: r.softcap ?? '', placeholder: t('off'), change: (v) => set('softcap', whole(v) || undefined) }),
    choices.length > 1 ? control(t('heads'), choices.map((h) => [h, h]), { id: 'walk-heads', value: String(r.num_heads), change: (h) => update((x) => {
      x.num_heads = +h;
      delete x.mask;
      if (kvWidth !== width) x.num_kv_heads = (kvWidth * h) / width;
    }) }) : '',
    control(t('biasOn'), 'checkbox', { id: 'walk-bias', value: !!r.bias, change: (on) => set('bias', on ? Array.from({ length: calc.nq }, () => Array(calc.nk).fill(0)) : undefined) }),
    r.mask ? button(t('clearMask'), () => set('mask', undefined)) : '');
  if (active?.startsWith('walk-')) document.getElementById(active)?.focus();
}
function choose(name) {
  keep();
  state.preset = name;
  request = structuredClone(walks[name] ?? request);
  state.request = '';
  picked = null;
  parts.reset.disabled = true;
  controls();
  changed();
  run().then(controls);
}

/** Takes a request from elsewhere; false where it has more than the walk-through shows. */
export function take(other) {
  const flat = (name) => !other[name] || (Array.isArray(other[name]) && Array.isArray(other[name][0]) && !Array.isArray(other[name][0][0]));
  const names = ['x', 'context', 'w_q', 'w_k', 'w_v', 'w_o', 'q', 'k', 'v'];
  if (!names.every(flat) || other.w_qkv || other.past_k || other.weight_layout === 'out_in' || (!other.x && !other.q)) return false;
  if ((other.x ?? other.q).length > 16 || (other.num_heads ?? 1) > 8 || (other.q && other.num_heads)) return false;
  const { trace, return: names2, return_weights, format, ...rest } = other;
  undo = [];
  state.preset = 'own';
  request = structuredClone(rest);
  state.request = JSON.stringify(request);
  return true;
}

export function init(where, onChange) {
  root = where;
  changed = onChange;
  parts = { ...parts };
  for (const name of ['controls', 'figure', 'story', 'cell', 'list', 'previous', 'next', 'where', 'say', 'status', 'lesson', 'undo', 'reset', 'share', 'empty']) parts[name] = root.querySelector(`[data-part=${name}]`);
  parts.previous.addEventListener('click', () => go(state.step - 1));
  parts.next.addEventListener('click', () => go(state.step + 1));
  parts.undo.addEventListener('click', () => {
    if (!undo.length) return;
    request = JSON.parse(undo.pop());
    parts.undo.disabled = !undo.length;
    state.request = JSON.stringify(request) === JSON.stringify(walks[state.preset]) ? '' : JSON.stringify(request);
    parts.reset.disabled = !state.request;
    signature = '';
    controls();
    changed();
    run();
  });
  parts.reset.addEventListener('click', () => choose(state.preset === 'own' ? 'worked' : state.preset));
  document.addEventListener('keydown', (event) => {
    if (root.hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape') pick(null);
    if (event.target.closest('input, select, textarea, [role=grid], summary')) return;
    if (event.key === 'ArrowRight') go(state.step + 1);
    else if (event.key === 'ArrowLeft') go(state.step - 1);
    else return;
    event.preventDefault();
  });
  shareBar(parts.share, () => ({ path: pathOf(request), request: { ...request, trace: true } }));
}
export function load() {
  try {
    request = state.request ? JSON.parse(state.request) : structuredClone(walks[state.preset] ?? walks.worked);
  } catch {
    request = structuredClone(walks.worked);
  }
  state.step = Math.max(0, Math.min(STEPS.length - 1, Math.floor(+state.step) || 0));
  signature = '';
  enter();
}
/** Draws everything in the language of now. */
export function enter() {
  parts.list.replaceChildren(...STEPS.map((name, i) => el('li', {}, button(t(`step_${name}`), () => go(i)))));
  parts.undo.disabled = !undo.length;
  parts.reset.disabled = !state.request;
  signature = '';
  controls();
  show();
  return run().then(controls);
}
export const current = () => ({ path: pathOf(request), request });
