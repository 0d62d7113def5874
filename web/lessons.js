// What goes wrong, beside what is right: scales, masks, heads.
import { css, inkOn, level, table } from './colour.js';
import { el, svg } from './dom.js';
import { entropy, random, short } from './numbers.js';
import { pathOf, post } from './service.js';
import { matrix } from './tensor.js';
import { t } from './text.js';

const rowsOf = ({ rows, cols, data }) => Array.from({ length: rows }, (_, i) => data.subarray(i * cols, (i + 1) * cols));
const mean = (list) => list.reduce((a, b) => a + b, 0) / Math.max(1, list.length);

/** A small table of weights; ends: a column more. */
function mini(caption, m, { rowLabel, keyLabel, ends, endName, blocked, derived }) {
  const colours = table('viridis');
  return el('table', { className: 'matrix weights mini' }, el('caption', { text: caption }),
    el('thead', {}, el('tr', {}, el('td'), Array.from({ length: m.cols }, (_, j) => el('th', { scope: 'col', text: keyLabel(j) })), ends ? endName.map((name) => el('th', { scope: 'col', text: name })) : null)),
    el('tbody', {}, Array.from({ length: m.rows }, (_, i) => el('tr', {}, el('th', { scope: 'row', text: rowLabel(i) }),
      Array.from({ length: m.cols }, (_, j) => {
        const x = m.data[i * m.cols + j];
        const l = level(x, { low: 0, high: 1 });
        const cell = el('td', { className: blocked?.(i, j) ? 'cell blocked' : 'cell', text: short(x), dataset: derived ? { derived: String(x) } : { value: String(x) } });
        if (!blocked?.(i, j)) (cell.style.background = css(colours, l)), (cell.style.color = inkOn(colours, l));
        return cell;
      }),
      ends ? ends(i).map((x) => el('td', { className: 'extra', text: short(x), dataset: { derived: String(x) } })) : null))));
}

const scales = [['1', '1'], ['1/d_k', '1/d_k'], ['1/sqrt(d_k)', '1/√d_k']];

export async function scaleLesson(root, calc, { rowLabel, keyLabel }) {
  const used = calc.request;
  const weights = await Promise.all(scales.map(([scale]) => post(pathOf(used), { ...used, scale, return: ['weights'] }).catch(() => null)));
  const rows = [];
  const { normal } = random(64);
  for (const d of [64, 512]) {
    const make = (n) => Array.from({ length: n }, () => Array.from({ length: d }, () => Math.round(normal() * 1000) / 1000));
    const base = { q: make(8), k: make(16), v: Array.from({ length: 16 }, () => [0]), return: ['weights'] };
    const found = await Promise.all(scales.map(([scale]) => post('/attention', { ...base, scale }).catch(() => null)));
    rows.push([d, found.map((reply) => reply && rowsOf(matrix(reply.tensors.weights)))]);
  }
  const tables = weights.map((reply, i) => reply && mini(`${t('scale')} ${scales[i][1]}`, matrix(reply.tensors.weights), {
    rowLabel, keyLabel, endName: [t('entropyShort'), t('largest')], blocked: (y, x) => calc.blocked(0, y, x).length > 0,
    ends: (y) => {
      const row = rowsOf(matrix(reply.tensors.weights))[y];
      return [entropy(row), Math.max(...row)];
    } }));
  root.replaceChildren(el('h3', { text: t('lessonScale') }), el('p', { text: t('lessonScaleText', { d: calc.dk }) }), el('div', { className: 'boxes' }, tables),
    el('table', { className: 'data' }, el('caption', { text: t('lessonScaleRandom') }),
      el('thead', {}, el('tr', {}, el('th', { scope: 'col', text: 'd_k' }), scales.flatMap(([, name]) => [el('th', { scope: 'col', text: `${name}: ${t('entropyShort')}` }), el('th', { scope: 'col', text: `${name}: ${t('largest')}` })]))),
      el('tbody', {}, rows.map(([d, found]) => el('tr', {}, el('th', { scope: 'row', text: String(d) }), found.flatMap((list) => list
        ? [mean(list.map(entropy)), mean(list.map((row) => Math.max(...row)))].map((x) => el('td', { text: short(x), dataset: { derived: String(x) } }))
        : [el('td', { text: '–' }), el('td', { text: '–' })]))))),
    el('p', { className: 'note', text: t('lessonScaleMax') }));
}

/** Three ways to mask: before the softmax, the score times 0, the weight set to 0 afterwards. */
export async function maskLesson(root, calc, { rowLabel, keyLabel }) {
  const used = calc.request;
  const blocked = (i, j) => calc.blocked(0, i, j).length > 0;
  const any = Array.from({ length: calc.nq }, (_, i) => Array.from({ length: calc.nk }, (_, j) => blocked(i, j))).flat().includes(true);
  if (!any) return root.replaceChildren(el('h3', { text: t('lessonMask') }), el('p', { text: t('lessonMaskNone') }));
  const before = calc.all[calc.stages.includes('capped') ? 'capped:0' : 'scaled:0'];
  // the service computes both: a bias of minus the score makes it 0; no mask at all, and the page zeroes the weights
  const identity = Array.from({ length: calc.nk }, (_, j) => [j]);
  const scores = (times0) => Array.from({ length: calc.nq }, (_, i) => Array.from({ length: calc.nk }, (_, j) => {
    const bias = calc.has('bias') && Number.isFinite(calc.at('bias', i, j)) ? calc.at('bias', i, j) : 0;
    return blocked(i, j) && times0 ? 0 : before.data[i * calc.nk + j] + bias;
  }));
  const ask = (times0) => post('/attention', { q: Array.from({ length: calc.nq }, () => [0]), k: identity.map(() => [0]), v: identity, bias: scores(times0), return: ['weights'] });
  const [zeroed, open] = await Promise.all([ask(true), ask(false)]);
  const right = calc.all['weights:0'];
  const first = matrix(zeroed.tensors.weights);
  const raw = matrix(open.tensors.weights);
  const third = { ...raw, data: raw.data.map((x, at) => (blocked(Math.floor(at / raw.cols), at % raw.cols) ? 0 : x)) };
  const sums = (m) => (i) => [rowsOf(m)[i].reduce((a, b) => a + b, 0)];
  const shared = { rowLabel, keyLabel, endName: [t('rowSum')] };
  root.replaceChildren(el('h3', { text: t('lessonMask') }), el('p', { text: t('lessonMaskText') }),
    el('div', { className: 'boxes' },
      mini(`✓ ${t('maskBefore')}`, right, { ...shared, ends: sums(right), blocked }),
      mini(`✗ ${t('maskTimes0')}`, first, { ...shared, ends: sums(first), derived: true }),
      mini(`✗ ${t('maskAfter')}`, third, { ...shared, ends: sums(third), derived: true })),
    el('p', { className: 'note', text: t('lessonMaskNote') }));
}

/** How columns become heads, and which query heads share keys and values. */
export function headLesson(root, calc) {
  if (calc.heads < 2) return;
  const { heads, kv, nq, dk } = calc;
  const gap = 56;
  const x = (i, n) => ((i + 0.5) * heads * gap) / n;
  root.replaceChildren(el('h3', { text: t('lessonHeads') }), el('p', { text: t('lessonHeadsText', { n: nq, h: heads, d: dk, all: heads * dk }) }),
    svg('svg', { viewBox: `0 0 ${heads * gap} 110`, width: heads * gap, height: 110, class: 'groups', role: 'img', 'aria-label': t('lessonHeadsPicture', { h: heads, kv }) },
      Array.from({ length: heads }, (_, h) => svg('line', { x1: x(h, heads), y1: 30, x2: x(Math.floor(h / (heads / kv)), kv), y2: 80 })),
      Array.from({ length: heads }, (_, h) => [svg('circle', { cx: x(h, heads), cy: 20, r: 14 }), svg('text', { x: x(h, heads), y: 24 }, `Q${h}`)]),
      Array.from({ length: kv }, (_, h) => [svg('rect', { x: x(h, kv) - 18, y: 78, width: 36, height: 26, rx: 4 }), svg('text', { x: x(h, kv), y: 95 }, `KV${h}`)])));
}
