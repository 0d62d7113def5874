// One matrix as a heatmap that can be read with the pointer, the keyboard and a screen reader.
import { el, button } from './dom.js';
import { inks, layout, paintCells, paintFrame, paintMargins, pixel } from './figure.js';
import { full, short } from './numbers.js';
import { namesOf } from './rules.js';
import { t } from './text.js';

let count = 0;

export class Heatmap {
  /** events: pick(i or null), hover(i, j or null), both of a row and a column; describe(i, j): more about a cell. */
  constructor({ title, rowTitle, colTitle, margins = false, events = {}, height = 640 }) {
    Object.assign(this, { title, rowTitle, colTitle, margins, events, maxHeight: height });
    const id = `heat${++count}`;
    this.canvas = el('canvas', { 'aria-hidden': 'true' });
    this.base = document.createElement('canvas');
    this.cell = el('div', { role: 'gridcell', id, className: 'unseen' });
    this.line = el('div', { role: 'row', className: 'unseen' }, this.cell);
    this.grid = el('div', { role: 'grid', tabindex: '0', className: 'heat', 'aria-label': title, 'aria-activedescendant': id }, this.canvas, this.line);
    this.tip = el('div', { className: 'tip', hidden: true });
    this.buttons = el('div', { className: 'zoom', role: 'group', 'aria-label': t('zoom') },
      button('+', () => this.zoomBy(2), { title: t('zoomIn'), 'aria-label': t('zoomIn') }), button('−', () => this.zoomBy(0.5), { title: t('zoomOut'), 'aria-label': t('zoomOut') }),
      button('0', () => this.reset(), { title: t('zoomReset'), 'aria-label': t('zoomReset') }));
    this.root = el('div', { className: 'heatmap' }, this.buttons, this.grid, this.tip);
    this.zoom = 1;
    this.ox = this.oy = 0;
    this.at = null;
    this.pinned = null;
    this.bind();
    new ResizeObserver(() => this.paint()).observe(this.root);
  }

  set(model, style, { rowLabels, colLabels, describe }) {
    const kept = this.model && this.model.rows === model.rows && this.model.cols === model.cols;
    Object.assign(this, { model, style, rowLabels, colLabels, describe, margin: null });
    if (!kept) {
      this.zoom = 1;
      this.ox = this.oy = 0;
      this.at = this.pinned = null;
      this.hideTip();
    }
    this.grid.setAttribute('aria-rowcount', Math.max(1, model.rows));
    this.grid.setAttribute('aria-colcount', Math.max(1, model.cols));
    this.grid.setAttribute('aria-label', this.title);
    this.paint();
    this.say();
  }

  measure() {
    const width = this.root.clientWidth || 300;
    this.margin ??= this.labelRoom();
    const left = Math.min(Math.max(44, this.margin[0]), 140, width * 0.35);
    const top = Math.min(Math.max(40, this.margin[1]), 140);
    return layout({ rows: this.model.rows, cols: this.model.cols, width, height: Math.min(this.maxHeight, innerHeight * 0.85), left, top, right: this.margins ? 66 : 8, bottom: this.margins ? 54 : 8 });
  }
  /** Room for the labels of rows and of columns. */
  labelRoom() {
    const probe = this.canvas.getContext('2d');
    probe.font = '12px system-ui, "DejaVu Sans", "WenQuanYi Micro Hei", sans-serif';
    const widest = (n, label) => {
      let most = 0;
      for (let i = 0; i < n; i += Math.max(1, Math.floor(n / 200))) most = Math.max(most, probe.measureText(label(i).slice(0, 18)).width);
      return most;
    };
    return [widest(this.model.rows, this.rowLabels) + 30, widest(this.model.cols, this.colLabels) + 30];
  }

  paint() {
    if (!this.model || !this.root.isConnected || !this.root.clientWidth) return;
    const place = (this.place = this.measure());
    const width = Math.ceil(place.left + place.width + place.right);
    const height = Math.ceil(place.top + place.height + place.bottom);
    let ratio = devicePixelRatio || 1;
    while (width * height * ratio * ratio > 16777216) ratio /= 2;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.clamp();
    const ctx = this.base.getContext('2d');
    this.base.width = this.canvas.width;
    this.base.height = this.canvas.height;
    const ink = inks(this.root);
    const view = { place, zoom: this.zoom, ox: this.ox, oy: this.oy, ratio, ink };
    if (this.model.rows && this.model.cols) this.block = paintCells(ctx, this.model, { ...this.style, paper: pixel(ink.paper) }, view);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    paintFrame(ctx, this.model, this.style, { ...view, rowLabels: this.rowLabels, colLabels: this.colLabels, titles: { rows: this.rowTitle, columns: this.colTitle } });
    if (this.margins) paintMargins(ctx, this.model, { ...view, titles: { entropy: t('entropyBits'), received: (x) => t('receivedMax', { x }) } });
    this.ratio = ratio;
    this.paintCursor();
    this.events.painted?.(this.block ?? 1);
  }

  /** The outlines of the cell in focus and the pinned one, over what was painted. */
  paintCursor() {
    const { place } = this;
    if (!place) return;
    const ctx = this.canvas.getContext('2d');
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, this.canvas.width, this.canvas.height);
    ctx.drawImage(this.base, 0, 0);
    ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const outline = ([i, j], width) => {
      const x = place.left + (j - this.ox) * place.cw * this.zoom;
      const y = place.top + (i - this.oy) * place.ch * this.zoom;
      const w = Math.max(3, place.cw * this.zoom);
      const h = Math.max(3, place.ch * this.zoom);
      if (x + w < place.left || y + h < place.top || x > place.left + place.width || y > place.top + place.height) return;
      ctx.lineWidth = width + 2;
      ctx.strokeStyle = '#fff';
      ctx.strokeRect(x, y, w, h);
      ctx.lineWidth = width;
      ctx.strokeStyle = '#c4211a';
      ctx.strokeRect(x, y, w, h);
    };
    if (this.pinned) outline(this.pinned, 2);
    if (this.at) outline(this.at, 1.5);
  }

  clamp() {
    const { rows, cols } = this.model;
    this.zoom = Math.max(1, Math.min(this.zoom, 64 / Math.min(this.place.cw, this.place.ch)));
    this.ox = Math.max(0, Math.min(this.ox, cols - cols / this.zoom));
    this.oy = Math.max(0, Math.min(this.oy, rows - rows / this.zoom));
  }
  /** Zooms about a point of the plot, which keeps its cell. */
  zoomBy(factor, px, py) {
    const { place } = this;
    px ??= place.width / 2;
    py ??= place.height / 2;
    const x = this.ox + px / (place.cw * this.zoom);
    const y = this.oy + py / (place.ch * this.zoom);
    this.zoom = Math.max(1, Math.min(this.zoom * factor, Math.max(1, 64 / Math.min(place.cw, place.ch))));
    this.ox = x - px / (place.cw * this.zoom);
    this.oy = y - py / (place.ch * this.zoom);
    this.grid.style.touchAction = this.zoom > 1 ? 'none' : 'pan-x pan-y';
    this.paint();
  }
  reset() {
    this.zoom = 1;
    this.ox = this.oy = 0;
    this.paint();
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left - this.place.left;
    const y = event.clientY - box.top - this.place.top;
    if (x < 0 || y < 0 || x >= this.place.width || y >= this.place.height) return null;
    return [Math.floor(this.oy + y / (this.place.ch * this.zoom)), Math.floor(this.ox + x / (this.place.cw * this.zoom))];
  }

  bind() {
    const pointers = new Map();
    let spread = 0;
    let moved = 0;
    const offset = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return [event.clientX - box.left - this.place.left, event.clientY - box.top - this.place.top];
    };
    const grid = this.grid;
    grid.addEventListener('pointerdown', (event) => {
      pointers.set(event.pointerId, event);
      moved = 0;
      if (pointers.size === 2) {
        const [a, b] = [...pointers.values()];
        spread = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
      }
    });
    grid.addEventListener('pointermove', (event) => {
      if (!this.model) return;
      const before = pointers.get(event.pointerId);
      if (before && pointers.size === 2) {
        pointers.set(event.pointerId, event);
        const [a, b] = [...pointers.values()];
        const now = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
        const [x, y] = offset({ clientX: (a.clientX + b.clientX) / 2, clientY: (a.clientY + b.clientY) / 2 });
        if (spread) this.zoomBy(now / spread, x, y);
        spread = now;
        moved = 9;
      } else if (before && this.zoom > 1) {
        this.ox -= (event.clientX - before.clientX) / (this.place.cw * this.zoom);
        this.oy -= (event.clientY - before.clientY) / (this.place.ch * this.zoom);
        moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
        pointers.set(event.pointerId, event);
        this.paint();
      } else this.show(this.cellAt(event), true);
    });
    for (const name of ['pointerup', 'pointercancel', 'pointerleave']) grid.addEventListener(name, (event) => {
      pointers.delete(event.pointerId);
      if (name === 'pointerleave' && event.pointerType === 'mouse' && !this.tip.matches(':hover')) this.leave();
    });
    this.tip.addEventListener('pointerleave', () => this.leave());
    grid.addEventListener('click', (event) => {
      if (moved > 4 || !this.model) return;
      const cell = this.cellAt(event);
      this.show(cell);
      this.pin(cell);
    });
    grid.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY / 200), ...offset(event));
    }, { passive: false });
    grid.addEventListener('keydown', (event) => this.key(event));
    grid.addEventListener('blur', () => this.leave());
    grid.addEventListener('focus', () => {
      if (grid.matches(':focus-visible') && this.model?.rows && this.model.cols) this.show(this.at ?? this.pinned ?? [0, 0]);
    });
  }

  key(event) {
    if (!this.model?.rows || !this.model.cols || event.altKey) return;
    const { rows, cols } = this.model;
    let [i, j] = this.at ?? this.pinned ?? [0, 0];
    const page = Math.max(1, Math.floor(rows / this.zoom / 2));
    const moves = { ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1], ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], PageUp: [i - page, j], PageDown: [i + page, j],
      Home: [event.ctrlKey ? 0 : i, 0], End: [event.ctrlKey ? rows - 1 : i, cols - 1] };
    if (moves[event.key] && (!event.ctrlKey || event.key === 'Home' || event.key === 'End')) {
      [i, j] = moves[event.key];
      i = Math.max(0, Math.min(rows - 1, i));
      j = Math.max(0, Math.min(cols - 1, j));
      if (this.into(i, j)) this.paint();
      this.show([i, j]);
    } else if (event.key === 'Enter' || event.key === ' ') this.pin(this.at ?? [i, j]);
    else if (event.key === 'Escape') {
      this.pin(null);
      this.leave();
    } else if ((event.key === '+' || event.key === '=' || event.key === '-' || event.key === '0') && !event.ctrlKey && !event.metaKey) {
      if (event.key === '0') this.reset();
      else {
        const { place } = this;
        this.zoomBy(event.key === '-' ? 0.5 : 2, (j + 0.5 - this.ox) * place.cw * this.zoom, (i + 0.5 - this.oy) * place.ch * this.zoom);
      }
      this.show([i, j]);
    } else return;
    event.preventDefault();
  }
  /** Moves the view so that a cell is inside. */
  into(i, j) {
    const h = this.model.rows / this.zoom;
    const w = this.model.cols / this.zoom;
    const before = [this.ox, this.oy].join();
    if (i < this.oy) this.oy = i;
    if (i >= this.oy + h) this.oy = i + 1 - h;
    if (j < this.ox) this.ox = j;
    if (j >= this.ox + w) this.ox = j + 1 - w;
    return before !== [this.ox, this.oy].join();
  }

  pin(cell) {
    const same = cell && this.pinned && cell[0] === this.pinned[0] && cell[1] === this.pinned[1];
    this.pinned = same ? null : cell;
    this.events.pick?.(this.pinned);
    this.paintCursor();
    if (!this.pinned) this.hideTip();
  }
  leave() {
    this.at = null;
    this.events.hover?.(this.pinned);
    if (this.pinned) this.show(this.pinned);
    else this.hideTip();
    this.at = null;
    this.paintCursor();
  }
  hideTip() {
    this.tip.hidden = true;
  }

  /** What a cell says: its lines, the first for a screen reader too. */
  lines(i, j) {
    const { model, style } = this;
    const at = i * model.cols + j;
    const value = model.data[at];
    const who = t('cellOf', { query: this.rowLabels(i), key: this.colLabels(j), rows: this.rowTitle, columns: this.colTitle });
    const out = [who];
    if (model.blocked[at]) out.push(`${t('blockedBy')} ${namesOf(model.blocked[at]).map((name) => t(`rule_${name}`)).join(', ')}`);
    else out.push(`${style.name ?? t('value')} ${full(value)}`);
    const block = this.block ?? 1;
    if (block > 1) {
      const level = model.levels[Math.log2(block) - 1];
      const p = Math.floor(i / block) * level.cols + Math.floor(j / block);
      if (level.open[p]) out.push(t('blockOf', { n: block, max: short(level.max[p], 5), mean: short(level.mean[p], 5), where: this.whereMax(i, j, block) }));
    }
    return out.concat(this.describe?.(i, j) ?? []);
  }
  whereMax(i, j, block) {
    const { model } = this;
    let best = null;
    for (let y = Math.floor(i / block) * block; y < Math.min(model.rows, (Math.floor(i / block) + 1) * block); y++) {
      for (let x = Math.floor(j / block) * block; x < Math.min(model.cols, (Math.floor(j / block) + 1) * block); x++) {
        const at = y * model.cols + x;
        if (!model.blocked[at] && (!best || model.data[at] > best[0])) best = [model.data[at], y, x];
      }
    }
    return best ? `${best[1]}, ${best[2]}` : '';
  }

  show(cell, light) {
    if (!cell) {
      if (!this.pinned) this.hideTip();
      if (this.at) (this.at = null), this.events.hover?.(this.pinned), this.paintCursor();
      return;
    }
    if (light && this.at && this.at[0] === cell[0] && this.at[1] === cell[1]) return;
    this.at = cell;
    this.events.hover?.(cell);
    this.paintCursor();
    this.say();
    const { place } = this;
    this.tip.replaceChildren(...this.lines(...cell).map((line, n) => el('div', { text: line, className: n ? '' : 'strong' })));
    this.tip.hidden = false;
    const w = place.cw * this.zoom;
    const h = place.ch * this.zoom;
    const left = this.canvas.offsetLeft + this.grid.offsetLeft + place.left + (cell[1] - this.ox) * w;
    const top = this.canvas.offsetTop + this.grid.offsetTop + place.top + (cell[0] - this.oy) * h;
    const box = this.root.getBoundingClientRect();
    const room = Math.min(document.documentElement.clientWidth - box.left, Math.max(this.root.clientWidth, 260));
    let x = left + w + 8;
    if (x + this.tip.offsetWidth > room) x = left - this.tip.offsetWidth - 8;
    const beside = x >= -box.left + 4;
    this.tip.style.left = `${beside ? x : Math.max(-box.left + 4, Math.min(left, room - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${beside ? top : top + h + 8}px`;
  }
  /** Tells a screen reader the cell under the cursor. */
  say() {
    const [i, j] = this.at ?? this.pinned ?? [0, 0];
    this.line.setAttribute('aria-rowindex', i + 1);
    this.cell.setAttribute('aria-colindex', j + 1);
    this.cell.textContent = this.model?.rows && this.model.cols ? this.lines(i, j).join('; ') : t('emptyMatrix');
    if (this.model?.rows && this.model.cols) this.cell.dataset.value = String(this.model.data[i * this.model.cols + j]);
  }
}
