// A small matrix as a real table: numbers in its cells, one tab stop, arrow keys.
import { css, inkOn, level, table } from './colour.js';
import { el } from './dom.js';
import { full, short } from './numbers.js';
import { t } from './text.js';

/** A formula as nodes: _X a subscript, letters in italics. */
export function formula(text) {
  return text.split(/(_\w|[A-Za-z]+)/).filter(Boolean).map((part) =>
    part[0] === '_' ? el('sub', { text: part.slice(1) }) : /^[A-Z]$/.test(part) ? el('i', { text: part }) : part);
}

export class MatrixTable {
  /**
   * id: of the matrix in the walk-through; bands: columns a head takes; tone: input, plain, signed or weights;
   * edit(i, j, text), pick(i, j), hover(i, j or null): what to do.
   */
  constructor({ id, name, math, rows, cols, rowLabels, colLabels, bands, tone = 'plain', edit, pick, hover, extra }) {
    Object.assign(this, { id, rows, cols, tone, edit, extra });
    this.cells = [];
    const head = el('tr', {}, el('td', { className: 'corner' }), Array.from({ length: cols }, (_, j) => el('th', { scope: 'col', text: colLabels(j) })), extra ? el('th', { scope: 'col', className: 'extra', text: extra }) : null);
    const body = Array.from({ length: rows }, (_, i) => {
      const line = Array.from({ length: cols }, (_, j) => this.makeCell(i, j, rowLabels(i), colLabels(j), bands));
      this.cells.push(line);
      const end = extra ? el('td', { className: 'extra' }) : null;
      if (end) line.end = end;
      return el('tr', {}, el('th', { scope: 'row', text: rowLabels(i) }), line, end);
    });
    this.shape = el('span', { className: 'shape' });
    this.caption = el('caption', {}, el('span', { className: 'name' }, formula(math)), ' ', this.shape);
    this.table = el('table', { role: 'grid', className: `matrix ${tone}`, 'aria-label': name, dataset: { id } }, this.caption, el('thead', {}, head), el('tbody', {}, body));
    this.root = el('div', { className: 'matrix-box' }, this.table);
    this.current = [0, 0];
    this.focusable();
    const where = (event) => {
      const cell = event.target.closest('[data-i]');
      return cell && [+cell.dataset.i, +cell.dataset.j];
    };
    this.table.addEventListener('pointerover', (event) => where(event) && hover?.(...where(event)));
    this.table.addEventListener('pointerleave', () => hover?.(null));
    this.table.addEventListener('focusin', (event) => {
      const cell = where(event);
      if (!cell) return;
      this.current = cell;
      this.focusable();
      event.target.select?.();
      hover?.(...cell);
    });
    this.table.addEventListener('focusout', () => hover?.(null));
    this.table.addEventListener('click', (event) => where(event) && pick?.(...where(event)));
    this.table.addEventListener('keydown', (event) => this.key(event, pick));
  }

  makeCell(i, j, row, column, bands) {
    const band = bands ? Math.floor(j / bands) : 0;
    const className = `cell${bands && j % bands === 0 && j ? ' first' : ''}`;
    const spot = { i, j, band };
    if (!this.edit) return el('td', { className, tabindex: '-1', dataset: spot });
    const input = el('input', { type: 'text', inputmode: 'decimal', autocomplete: 'off', spellcheck: 'false', tabindex: '-1', 'aria-label': `${this.id} ${row}, ${column}`, dataset: spot });
    const td = el('td', { className }, input);
    input.addEventListener('input', () => this.edit(i, j, input.value));
    return td;
  }
  node(i, j) {
    const cell = this.cells[i]?.[j];
    return this.edit ? cell?.firstChild : cell;
  }
  focusable() {
    for (const line of this.cells) for (const cell of line) (this.edit ? cell.firstChild : cell).tabIndex = -1;
    const node = this.node(...this.current);
    if (node) node.tabIndex = 0;
  }
  key(event, pick) {
    const cell = event.target.closest('[data-i]');
    if (!cell || event.ctrlKey && event.key !== 'Home' && event.key !== 'End') return;
    let [i, j] = [+cell.dataset.i, +cell.dataset.j];
    const input = event.target.selectionStart !== undefined ? event.target : null;
    const atStart = !input || (input.selectionStart === 0 && (input.selectionEnd === 0 || input.selectionEnd === input.value.length));
    const atEnd = !input || (input.selectionEnd === input.value.length && (input.selectionStart === input.value.length || input.selectionStart === 0));
    if (event.key === 'ArrowUp') i--;
    else if (event.key === 'ArrowDown' || (event.key === 'Enter' && input)) i++;
    else if (event.key === 'ArrowLeft' && atStart) j--;
    else if (event.key === 'ArrowRight' && atEnd) j++;
    else if (event.key === 'Home' && !input) [i, j] = [event.ctrlKey ? 0 : i, 0];
    else if (event.key === 'End' && !input) [i, j] = [event.ctrlKey ? this.rows - 1 : i, this.cols - 1];
    else if ((event.key === 'Enter' || event.key === ' ') && !input) {
      event.preventDefault();
      return pick?.(i, j);
    } else return;
    event.preventDefault();
    event.stopPropagation();
    this.node(Math.max(0, Math.min(this.rows - 1, i)), Math.max(0, Math.min(this.cols - 1, j)))?.focus();
  }

  /** Numbers into the cells. values: data, row-major; blocked(i, j): names of rules; range: {low, high}; ends: of the extra column. */
  fill(values, { blocked, range, ends, shape } = {}) {
    this.shape.textContent = shape ?? `${this.rows} × ${this.cols}`;
    const colours = this.tone === 'weights' ? table('viridis') : this.tone === 'signed' ? table('signed') : null;
    for (let i = 0; i < this.rows; i++) {
      for (let j = 0; j < this.cols; j++) {
        const value = values[i * this.cols + j];
        const node = this.node(i, j);
        const td = this.cells[i][j];
        const rules = blocked?.(i, j) ?? [];
        if (this.edit) {
          if (node !== document.activeElement || node.dataset.value !== String(value)) {
            const text = typeof value === 'string' ? value : String(value);
            if (node !== document.activeElement) node.value = text;
          }
          td.classList.remove('bad');
          node.removeAttribute('aria-invalid');
        } else {
          td.textContent = rules.length && !Number.isFinite(value) ? '−∞' : short(value);
          td.title = rules.length ? `${t('blockedBy')} ${rules.map((name) => t(`rule_${name}`)).join(', ')}` : full(value);
        }
        node.dataset.value = String(value);
        td.classList.toggle('blocked', rules.length > 0);
        const l = colours && range && !rules.length ? level(value, range) : -1;
        td.style.background = l >= 0 ? css(colours, l) : '';
        td.style.color = l >= 0 ? inkOn(colours, l) : '';
      }
      if (this.cells[i].end) {
        this.cells[i].end.textContent = ends ? short(ends[i], 4) : '';
        this.cells[i].end.dataset.derived = ends ? String(ends[i]) : '';
      }
    }
  }
  bad(i, j) {
    this.cells[i]?.[j]?.classList.add('bad');
    this.node(i, j)?.setAttribute('aria-invalid', 'true');
  }
  /** Outlines cells: of a row, a column, one cell, or all. */
  mark(kind, i, j) {
    for (const [y, line] of this.cells.entries()) {
      for (const [x, cell] of line.entries()) {
        const on = kind === 'cell' ? y === i && x === j : kind === 'row' ? y === i && (j === undefined || (x >= j[0] && x < j[1])) : x === j;
        if (on) cell.classList.add('source');
      }
    }
  }
  pickMark(i, j) {
    this.cells[i]?.[j]?.classList.add('picked');
  }
  unmark() {
    for (const line of this.cells) for (const cell of line) cell.classList.remove('source', 'picked');
  }
}
