// The legend of a heatmap: colours with numbers, and the four looks that are no colour.
import { css, table } from './colour.js';
import { el } from './dom.js';
import { legendWords } from './export.js';
import { t } from './text.js';

export class Legend {
  constructor() {
    this.bar = el('canvas', { width: 256, height: 1, 'aria-hidden': 'true' });
    this.low = el('span', { className: 'low' });
    this.high = el('span', { className: 'high' });
    this.words = el('span', { className: 'words' });
    this.root = el('div', { className: 'legend', role: 'group', 'aria-label': t('legend') }, el('span', { className: 'scale' }, this.low, this.bar, this.high), this.words,
      el('span', { className: 'looks' }, ['blocked', 'zero', 'broken', 'outside'].map((look) => el('span', {}, el('i', { className: `look ${look}` }), t(look)))));
  }
  set(style, block = 1) {
    const colours = table(style.signed ? 'signed' : style.map);
    const ctx = this.bar.getContext('2d');
    for (let l = 0; l < 256; l++) (ctx.fillStyle = css(colours, l)), ctx.fillRect(l, 0, 1, 1);
    const { low, high, words } = legendWords({ style, block });
    this.low.textContent = low;
    this.high.textContent = high;
    this.words.textContent = words;
    this.root.querySelector('.zero').style.background = style.signed ? css(colours, 128) : css(colours, 0);
  }
}
