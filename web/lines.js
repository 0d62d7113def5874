// Token-to-token lines: a query to its keys. Opacity and width depend on the weight alone.
import { HEADS } from './colour.js';
import { el, svg } from './dom.js';
import { percent } from './numbers.js';
import { t } from './text.js';

const WINDOW = 200;
const LINE = 20;

export class Lines {
  constructor({ hover, pick }) {
    Object.assign(this, { hover, pick });
    this.note = el('p', { className: 'note', role: 'status' });
    this.pager = el('div', { className: 'row' });
    this.box = el('div', { className: 'lines' });
    this.root = el('div', {}, this.note, this.pager, this.box);
    this.from = 0;
  }
  set(model, { rowLabels, colLabels, top, threshold, head }) {
    Object.assign(this, { model, rowLabels, colLabels, top, threshold, head });
    if (this.from >= model.rows) this.from = 0;
    this.draw();
  }
  draw() {
    const { model, top, threshold, from } = this;
    const rows = Math.min(WINDOW, model.rows - from);
    const first = model.cols > WINDOW ? Math.max(0, Math.min(from, model.cols - WINDOW)) : 0;
    const cols = Math.min(WINDOW, model.cols - first);
    const colour = HEADS[(Math.max(0, this.head) || 0) % HEADS.length];
    let drawn = 0;
    let whole = 0;
    const paths = [];
    this.byRow = new Map();
    this.tinted = [];
    for (let i = from; i < from + rows; i++) {
      const row = [];
      for (let j = 0; j < model.cols; j++) {
        const w = model.data[i * model.cols + j];
        if (model.blocked[i * model.cols + j] || !(w > 0)) continue;
        whole += w;
        if (j >= first && j < first + cols && w >= threshold) row.push([w, j]);
      }
      row.sort((a, b) => b[0] - a[0]);
      for (const [w, j] of row.slice(0, top)) {
        drawn += w;
        const y1 = (i - from + 0.5) * LINE;
        const y2 = (j - first + 0.5) * LINE;
        const path = svg('path', { d: `M0 ${y1}C60 ${y1} 100 ${y2} 160 ${y2}`, 'stroke-width': (0.5 + 3.5 * w).toFixed(2), 'stroke-opacity': Math.max(0.08, Math.min(1, w)).toFixed(3), 'data-i': i, 'data-j': j, 'data-value': w });
        paths.push(path);
        if (!this.byRow.has(i)) this.byRow.set(i, []);
        this.byRow.get(i).push(path);
      }
    }
    this.note.textContent = t('drawn', { share: percent(whole ? drawn / whole : 0) });
    const paging = model.rows > WINDOW;
    this.pager.replaceChildren(...(paging ? [el('button', { type: 'button', text: '←', 'aria-label': t('earlier'), disabled: from === 0, onclick: () => ((this.from = Math.max(0, from - WINDOW)), this.draw()) }),
      el('span', { text: t('windowOf', { from, to: from + rows - 1, all: model.rows }) }),
      el('button', { type: 'button', text: '→', 'aria-label': t('later'), disabled: from + WINDOW >= model.rows, onclick: () => ((this.from = from + WINDOW), this.draw()) })] : []));
    const side = (name, n, at, label, key) => el('div', { className: `side ${name}` }, el('div', { className: 'head', text: key }),
      Array.from({ length: n }, (_, p) => el('div', { className: 'token', dataset: { n: at + p }, text: label(at + p) })));
    const height = Math.max(rows, cols) * LINE;
    this.picture = svg('svg', { viewBox: `0 0 160 ${height}`, width: 160, height, 'aria-hidden': 'true', stroke: colour, fill: 'none' }, paths);
    const left = side('queries', rows, from, this.rowLabels, t('query'));
    left.addEventListener('pointerover', (event) => event.target.dataset.n && this.hover(+event.target.dataset.n));
    left.addEventListener('pointerleave', () => this.hover(null));
    left.addEventListener('click', (event) => event.target.dataset.n && this.pick(+event.target.dataset.n));
    this.box.replaceChildren(left, el('div', { className: 'strokes' }, this.picture), side('keys', cols, first, this.colLabels, t('key')));
    this.keys = [...this.box.querySelectorAll('.keys .token')];
    this.focused = null;
  }
  /** Turns to the window that holds a query. */
  turnTo(i) {
    if (i >= this.from && i < this.from + WINDOW) return;
    this.from = Math.floor(i / WINDOW) * WINDOW;
    this.draw();
  }
  /** Shows one query's lines alone, and its weights on the keys. */
  focus(i) {
    if (!this.picture) return;
    for (const node of this.tinted) node.style.background = '';
    for (const path of this.byRow.get(this.focused) ?? []) path.classList.remove('on');
    this.tinted = [];
    this.focused = i;
    this.picture.classList.toggle('one', i !== null);
    if (i === null) return;
    for (const path of this.byRow.get(i) ?? []) path.classList.add('on');
    const { model } = this;
    const tint = (node, colour) => {
      node.style.background = colour;
      this.tinted.push(node);
    };
    for (const token of this.keys) {
      const at = i * model.cols + +token.dataset.n;
      if (!model.blocked[at] && model.data[at] > 0.005) tint(token, `color-mix(in srgb, var(--accent) ${Math.round(70 * Math.min(1, model.data[at]))}%, transparent)`);
    }
    const query = this.box.querySelector(`.queries .token[data-n="${i}"]`);
    if (query) tint(query, 'var(--picked)');
  }
}
