// Cost: what attention needs, by formula, and what it took here, by measurement.
import { control, el, svg } from './dom.js';
import { bytes, count, random, short } from './numbers.js';
import { post } from './service.js';
import { t } from './text.js';

export const defaults = { n: 4096, d: 64, heads: 8, dtype: 'F16', causal: false };
export const state = { ...defaults };
const SIZE = { F64: 8, F32: 4, F16: 2, BF16: 2 };
const CLASSIC = [512, 4096, 32768, 128000];

let parts = {};
let changed = () => {};
let measured = null;

/** FLOPs and bytes of one attention of the given sizes; a multiply and an add are two. */
export function cost({ n, d, heads, dtype, causal }) {
  const pairs = causal ? (n * (n + 1)) / 2 : n * n;
  const size = SIZE[dtype];
  return {
    projections: 4 * 2 * n * (heads * d) ** 2,
    scores: 2 * heads * pairs * d,
    softmax: 5 * heads * pairs,
    mix: 2 * heads * pairs * d,
    weights: heads * n * n * size,
    tensors: 4 * heads * n * d * size,
    fused: 4 * heads * n * d * size + 4 * heads * n,
  };
}

function chart() {
  const [w, h, left, bottom] = [640, 300, 64, 40];
  const sizes = Array.from({ length: 41 }, (_, i) => 128 * 2 ** (i / 4)); // to 128 K
  const series = [['weights', (n) => cost({ ...state, n }).weights], ['fused', (n) => cost({ ...state, n }).fused]];
  const all = series.flatMap(([, f]) => [f(sizes[0]), f(sizes.at(-1))]);
  const low = Math.log2(Math.min(...all));
  const high = Math.log2(Math.max(...all));
  const x = (n) => left + ((w - left - 12) * Math.log2(n / 128)) / 10;
  const y = (v) => h - bottom - ((h - bottom - 14) * (Math.log2(v) - low)) / (high - low);
  const ticks = [];
  for (let e = Math.ceil(low / 5) * 5; e <= high; e += 5) ticks.push(e);
  return svg('svg', { viewBox: `0 0 ${w} ${h}`, class: 'chart', role: 'img', 'aria-label': t('chartLabel') },
    ticks.map((e) => [svg('line', { class: 'rule', x1: left, x2: w - 12, y1: y(2 ** e), y2: y(2 ** e) }), svg('text', { x: left - 8, y: y(2 ** e) + 4, 'text-anchor': 'end' }, bytes(2 ** e))]),
    [128, 512, 2048, 8192, 32768, 131072].map((n) => svg('text', { x: x(n), y: h - bottom + 20, 'text-anchor': n === 131072 ? 'end' : 'middle' }, n >= 1024 ? `${n / 1024}K` : n)),
    svg('text', { x: w - 12, y: h - 4, 'text-anchor': 'end' }, t('tokensN')),
    series.map(([name, f], i) => [svg('path', { class: `curve c${i}`, d: sizes.map((n, p) => `${p ? 'L' : 'M'}${x(n).toFixed(1)} ${y(f(n)).toFixed(1)}`).join('') }),
      svg('text', { class: `curve-name c${i}`, x: i ? w - 12 : x(16384) - 10, y: y(f(16384)) + (i ? 34 : -12), 'text-anchor': 'end' }, t(`curve_${name}`))]));
}

function timeChart() {
  if (!measured) return null;
  const rate = measured.at(-1).flops / measured.at(-1).ms; // FLOP per millisecond
  return el('table', { className: 'data' }, el('caption', { text: t('measuredCaption', { rate: count(rate * 1000) }) }),
    el('thead', {}, el('tr', {}, ['n', t('computeMs'), 'FLOP/s'].map((name) => el('th', { scope: 'col', text: name })))),
    el('tbody', {}, measured.map((m) => el('tr', {}, el('th', { scope: 'row', text: String(m.n) }), el('td', { text: short(m.ms) }), el('td', { text: count((m.flops / m.ms) * 1000) }))),
      [8192, 32768, 131072].map((n) => {
        const c = cost({ n, d: 64, heads: 1, dtype: 'F32', causal: false });
        return el('tr', { className: 'predicted' }, el('th', { scope: 'row', text: String(n) }), el('td', { text: `≈ ${short((c.scores + c.mix) / rate, 0)}` }), el('td', { text: t('predicted') }));
      })));
}

async function measure() {
  parts.status.textContent = t('measuring');
  parts.status.classList.remove('bad');
  try {
    const out = [];
    for (const n of [256, 512, 1024, 2048]) {
      const { normal } = random(n);
      const make = () => ({ shape: [n, 64], data: Float32Array.from({ length: n * 64 }, normal) });
      const request = { q: make(), k: make(), v: make() };
      let ms = Infinity;
      for (let run = 0; run < 3; run++) ms = Math.min(ms, (await post('/attention', request, { binary: true })).timing.compute);
      out.push({ n, ms, flops: 4 * n * n * 64 });
    }
    measured = out;
    parts.status.textContent = '';
    draw();
  } catch (error) {
    parts.status.classList.add('bad');
    parts.status.textContent = error.message;
  }
}

function draw() {
  const c = cost(state);
  const line = (name, math, value, unit) => el('tr', {}, el('th', { scope: 'row', text: name }), el('td', { className: 'math', text: math }), el('td', { text: unit === 'B' ? bytes(value) : count(value), dataset: { derived: String(value) } }));
  const pairs = state.causal ? '(n²+n)/2' : 'n²';
  const plain = (caption, head, rows) => el('table', { className: 'data' }, el('caption', { text: caption }), el('thead', {}, el('tr', {}, head.map((name) => el('th', { scope: 'col', text: name })))), el('tbody', {}, rows));
  parts.tables.replaceChildren(
    plain(t('costSteps'), [t('stepName'), t('formula'), t('valueHere')], [
      line(t('cost_projections'), '8·n·(h·d)²', c.projections), line('Q Kᵀ', `2·h·${pairs}·d`, c.scores), line('softmax', `5·h·${pairs}`, c.softmax), line('A V', `2·h·${pairs}·d`, c.mix),
      line(t('curve_weights'), `h·n²·${SIZE[state.dtype]} B`, c.weights, 'B'), line(t('curve_fused'), `4·h·n·d·${SIZE[state.dtype]} B + 4·h·n B`, c.fused, 'B')]),
    plain(t('classic'), ['n', 'n² × 2 B', t('fusedOne')], CLASSIC.map((n) => el('tr', {}, el('th', { scope: 'row', text: n.toLocaleString('en') }), el('td', { text: bytes(2 * n * n), dataset: { derived: String(2 * n * n) } }),
      el('td', { text: bytes(cost({ n, d: 64, heads: 1, dtype: 'F16' }).fused) })))),
    plain(t('orders'), [t('layerType'), t('perLayer'), t('sequential'), t('longestPath')], [
      [t('selfAttention'), 'O(n²·d)', 'O(1)', 'O(1)'], [t('recurrent'), 'O(n·d²)', 'O(n)', 'O(n)'], [t('convolution'), 'O(k·n·d²)', 'O(1)', 'O(log_k n)'.replace('_k', 'ₖ')]]
      .map(([name, ...rest]) => el('tr', {}, el('th', { scope: 'row', text: name }), rest.map((text) => el('td', { className: 'math', text }))))));
  parts.chart.replaceChildren(el('figure', {}, chart(), el('figcaption', { text: t('chartCaption', { dtype: state.dtype, h: state.heads, d: state.d }) })));
  const table = timeChart();
  parts.measured.replaceChildren(...(table ? [table] : []));
}

export function init(root, onChange) {
  changed = onChange;
  for (const node of root.querySelectorAll('[data-part]')) parts[node.dataset.part] = node;
  parts.measure.addEventListener('click', measure);
}
export const load = () => enter();
export function enter() {
  const number = (name, max) => control(t(`cost_${name}`), 'number', { id: `cost-${name}`, min: 1, max, value: state[name], change: (v) => {
    state[name] = Math.max(1, Math.min(max, Math.floor(+v) || 1));
    changed();
    draw();
  } });
  parts.controls.replaceChildren(number('n', 10000000), number('d', 4096), number('heads', 1024),
    control('dtype', Object.keys(SIZE).map((name) => [name, name]), { id: 'cost-dtype', value: state.dtype, change: (v) => ((state.dtype = v), changed(), draw()) }),
    control(t('causal'), 'checkbox', { id: 'cost-causal', value: state.causal, change: (on) => ((state.causal = on), changed(), draw()) }));
  draw();
}
