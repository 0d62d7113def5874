// Small multiples: every head on one canvas and one range, each with a button to enlarge it.
import { el } from './dom.js';
import { inks, paintCells, pixel } from './figure.js';
import { t } from './text.js';

export const PAGE = 64;

export class HeadGrid {
  /** choose(index): a head was picked */
  constructor(choose) {
    this.choose = choose;
    this.canvas = el('canvas', { 'aria-hidden': 'true' });
    this.over = el('div', { className: 'thumbs', role: 'group', 'aria-label': t('headGrid') });
    this.root = el('div', { className: 'heads' }, this.canvas, this.over);
    new ResizeObserver(() => this.paint()).observe(this.root);
  }
  /** heads: [{index, title, model}], style: one for all */
  set(heads, style, current) {
    const same = this.list?.length === heads.length && heads.every((head, i) => head.title === this.list[i].title && head.index === this.list[i].index);
    Object.assign(this, { list: heads, style, current });
    if (!same) this.over.replaceChildren(...heads.map((head) => el('button', { type: 'button', title: head.title, onclick: () => this.choose(head.index) }, el('span', { text: head.title }))));
    this.paint();
  }
  paint() {
    if (!this.list || !this.root.clientWidth) return;
    const width = this.root.clientWidth;
    const size = 104;
    const gap = 12;
    const head = 20;
    const across = Math.max(1, Math.floor((width + gap) / (size + gap)));
    const lines = Math.ceil(this.list.length / across);
    const height = lines * (size + head + gap);
    const ratio = Math.min(2, devicePixelRatio || 1);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = this.root.style.height = `${height}px`;
    this.canvas.style.width = `${width}px`;
    const ctx = this.canvas.getContext('2d');
    const ink = inks(this.root);
    this.list.forEach(({ model, index }, n) => {
      const left = (n % across) * (size + gap);
      const top = Math.floor(n / across) * (size + head + gap) + head;
      const cell = Math.min(size / Math.max(1, model.cols), size / Math.max(1, model.rows));
      const w = Math.max(2, cell * model.cols);
      const h = Math.max(2, cell * model.rows);
      ctx.setTransform(1, 0, 0, 1, 0, 0);
      if (model.rows && model.cols) paintCells(ctx, model, { ...this.style, paper: pixel(ink.paper) }, { place: { left, top, width: w, height: h, cw: cell, ch: cell }, ratio });
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      ctx.strokeStyle = ink.frame;
      ctx.strokeRect(left + 0.5, top + 0.5, w - 1, h - 1);
      const button = this.over.children[n];
      Object.assign(button.style, { left: `${left}px`, top: `${top - head}px`, width: `${size}px`, height: `${size + head}px` });
      button.setAttribute('aria-pressed', String(index === this.current));
    });
  }
}
