// Paints a matrix as a heatmap: on the screen and into pictures alike.
import { css, inkOn, level, table } from './colour.js';
import { compact, short } from './numbers.js';

export const LOOKS = { blocked: [128, 128, 128], broken: [214, 31, 140], outside: [228, 87, 46] };

/**
 * The colours of a matrix. model: of pyramid.js. style: {map, log, range: {low, high} | 'row', signed, pool}.
 * Gives a function from a cell (or a block of a level) to a level of the colour table, or −1 blocked, −2 not finite, −3 out of range.
 */
export function shade(model, style) {
  const of = (x, i, blocked) => {
    if (blocked) return -1;
    if (!Number.isFinite(x)) return -2;
    const range = style.range === 'row' ? { low: 0, high: model.rowMax[i] } : style.range;
    const slack = 1e-6 * (range.high - range.low);
    if (!style.log && (x > range.high + slack || x < range.low - slack)) return -3;
    return level(x, { ...range, log: style.log });
  };
  return of;
}

/** Where a matrix stands: cells of width cw and height ch in CSS pixels, the plot at (left, top), zoomed and moved. */
export function layout({ rows, cols, width, height, left, top, right, bottom, most = 48 }) {
  const w = Math.max(40, width - left - right);
  const h = Math.max(40, height - top - bottom);
  let cw = Math.min(most, w / cols);
  let ch = Math.min(most, h / rows);
  if (cw / ch < 6 && ch / cw < 6) cw = ch = Math.min(cw, ch);
  return { left, top, right, bottom, cw, ch, width: cw * cols, height: ch * rows };
}

/** The cells as pixels into ctx, at device pixels (x0, y0), each pixel one lookup. */
export function paintCells(ctx, model, style, { place, zoom = 1, ox = 0, oy = 0, ratio }) {
  const { rows, cols, data, blocked } = model;
  const w = Math.max(1, Math.round(place.width * ratio));
  const h = Math.max(1, Math.round(place.height * ratio));
  const cw = place.cw * zoom * ratio;
  const ch = place.ch * zoom * ratio;
  let step = 0;
  while (step < model.levels.length && Math.min(cw, ch) * 2 ** step < 1) step++;
  const block = 2 ** step;
  const source = step ? model.levels[step - 1] : null;
  const values = source ? source[style.pool === 'mean' ? 'mean' : 'max'] : data;
  const width = source ? source.cols : cols;
  const colours = table(style.signed ? 'signed' : style.map);
  const of = shade(model, style);
  const image = ctx.createImageData(w, h);
  const pixels = new Uint32Array(image.data.buffer);
  const packed = new Uint32Array(256);
  for (let l = 0; l < 256; l++) packed[l] = 0xff000000 | (colours[3 * l + 2] << 16) | (colours[3 * l + 1] << 8) | colours[3 * l];
  const pack = ([r, g, b]) => 0xff000000 | (b << 16) | (g << 8) | r;
  const broken = pack(LOOKS.broken);
  const outside = pack(LOOKS.outside);
  const dark = pack(LOOKS.blocked);
  const pale = style.paper ?? 0xffffffff;
  const column = new Int32Array(w);
  for (let x = 0; x < w; x++) column[x] = Math.min(cols - 1, Math.floor(ox + x / cw)) / block;
  const hatch = Math.max(4, Math.round(5 * ratio));
  const line = Math.max(1, Math.round(1.3 * ratio));
  const levelsOfRow = new Int16Array(width);
  let row = -1;
  for (let y = 0; y < h; y++) {
    const cell = Math.min(rows - 1, Math.floor(oy + y / ch));
    const r = Math.floor(cell / block);
    if (r !== row) {
      row = r;
      const first = column[0];
      const last = column[w - 1];
      for (let c = first; c <= last; c++) {
        const at = r * width + c;
        levelsOfRow[c] = of(values[at], cell, source ? source.open[at] === 0 : blocked[at]);
      }
    }
    for (let x = 0, at = y * w; x < w; x++, at++) {
      const l = levelsOfRow[column[x]];
      pixels[at] = l >= 0 ? packed[l] : l === -1 ? ((x + y) % hatch < line ? dark : pale) : l === -2 ? broken : outside;
    }
  }
  ctx.putImageData(image, Math.round(place.left * ratio), Math.round(place.top * ratio));
  return block;
}

const cut = (text, n) => (text.length <= n ? text : `${text.slice(0, Math.ceil(n / 2) - 1)}…${text.slice(text.length - Math.floor(n / 2))}`);

/** Axis labels, numbers in cells, grid, frame. ink: colours {text, soft, frame}. */
export function paintFrame(ctx, model, style, { place, zoom = 1, ox = 0, oy = 0, rowLabels, colLabels, titles, ink, numbers = true }) {
  const { rows, cols, data, blocked } = model;
  const cw = place.cw * zoom;
  const ch = place.ch * zoom;
  const right = place.left + place.width;
  const bottom = place.top + place.height;
  const i0 = Math.floor(oy);
  const i1 = Math.min(rows, Math.ceil(oy + place.height / ch));
  const j0 = Math.floor(ox);
  const j1 = Math.min(cols, Math.ceil(ox + place.width / cw));
  ctx.save();
  ctx.font = '12px system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", "PingFang SC", "Microsoft YaHei", "WenQuanYi Micro Hei", sans-serif';
  ctx.textBaseline = 'middle';
  if (Math.min(cw, ch) >= 9) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(place.left, place.top, place.width, place.height);
    ctx.clip();
    ctx.strokeStyle = ink.paper;
    ctx.lineWidth = 1;
    ctx.beginPath();
    for (let j = j0 + 1; j < j1; j++) ctx.moveTo(place.left + (j - ox) * cw, place.top), ctx.lineTo(place.left + (j - ox) * cw, bottom);
    for (let i = i0 + 1; i < i1; i++) ctx.moveTo(place.left, place.top + (i - oy) * ch), ctx.lineTo(right, place.top + (i - oy) * ch);
    ctx.stroke();
    const colours = table(style.signed ? 'signed' : style.map);
    const of = shade(model, style);
    ctx.textAlign = 'center';
    ctx.font = '11px system-ui, "DejaVu Sans", sans-serif';
    for (let i = i0; i < i1; i++) {
      for (let j = j0; j < j1; j++) {
        const l = of(data[i * cols + j], i, blocked[i * cols + j]);
        const x = place.left + (j + 0.5 - ox) * cw;
        const y = place.top + (i + 0.5 - oy) * ch;
        if (l === -1) continue;
        ctx.fillStyle = l >= 0 ? inkOn(colours, l) : '#000';
        if (l === -2) ctx.fillText(Number.isNaN(data[i * cols + j]) ? '×' : '∞', x, y);
        else if (numbers && Math.min(cw, ch) >= 28) ctx.fillText(compact(data[i * cols + j], cw >= 40 ? 3 : 2), x, y, cw - 2);
        else if (data[i * cols + j] === 0 && !style.signed) ctx.fillRect(x - 1, y - 1, 2, 2);
      }
    }
    ctx.restore();
  }
  ctx.fillStyle = ink.text;
  const every = (size) => (size >= 10 ? 1 : Math.ceil(20 / size));
  ctx.textAlign = 'right';
  const ky = every(ch);
  const step = (k) => (k === 1 ? 1 : [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096].find((p) => p >= k) ?? k);
  for (let i = Math.ceil(i0 / step(ky)) * step(ky); i < i1; i += step(ky)) {
    const y = place.top + (i + 0.5 - oy) * ch;
    if (y < place.top || y > bottom) continue;
    ctx.fillText(cut(rowLabels(i), 18), place.left - 6, y, place.left - 22);
  }
  ctx.textAlign = 'left';
  const kx = every(cw);
  for (let j = Math.ceil(j0 / step(kx)) * step(kx); j < j1; j += step(kx)) {
    const x = place.left + (j + 0.5 - ox) * cw;
    if (x < place.left || x > right) continue;
    ctx.save();
    ctx.translate(x, place.top - 6);
    ctx.rotate(-Math.PI / 2);
    ctx.fillText(cut(colLabels(j), 18), 0, 0, place.top - 24);
    ctx.restore();
  }
  ctx.fillStyle = ink.soft;
  ctx.font = '12px system-ui, "DejaVu Sans", "WenQuanYi Micro Hei", sans-serif';
  ctx.textAlign = 'left';
  ctx.fillText(`${titles.columns} →`, place.left, 8);
  ctx.save();
  ctx.translate(8, place.top + place.height);
  ctx.rotate(-Math.PI / 2);
  ctx.textAlign = 'right';
  ctx.fillText(`← ${titles.rows}`, place.height, 0);
  ctx.restore();
  ctx.strokeStyle = ink.frame;
  ctx.lineWidth = 1;
  ctx.strokeRect(place.left - 0.5, place.top - 0.5, place.width + 1, place.height + 1);
  ctx.restore();
}

/** Bars beside the axes: entropy of rows at the right, attention received below. */
export function paintMargins(ctx, model, { place, zoom = 1, ox = 0, oy = 0, ink, titles }) {
  const { rows, cols, entropy, received } = model;
  const bars = (n, values, most, origin, unit, length, draw) => {
    for (let p = 0; p < length; p++) {
      const from = Math.floor(origin + p / unit);
      const to = Math.max(from + 1, Math.floor(origin + (p + 1) / unit));
      let value = 0;
      for (let i = from; i < Math.min(to, n); i++) value = Math.max(value, values[i]);
      draw(p, most > 0 ? value / most : 0);
    }
  };
  ctx.save();
  ctx.fillStyle = ink.bar;
  const x = place.left + place.width + 6;
  const y = place.top + place.height + 6;
  bars(rows, entropy, Math.log2(Math.max(2, cols)), oy, place.ch * zoom, Math.round(place.height), (p, share) => ctx.fillRect(x, place.top + p, share * 44, 1));
  const top = received.reduce((a, b) => Math.max(a, b), 0);
  bars(cols, received, top, ox, place.cw * zoom, Math.round(place.width), (p, share) => ctx.fillRect(place.left + p, y, 1, share * 30));
  ctx.strokeStyle = ink.soft;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(x - 0.5, place.top);
  ctx.lineTo(x - 0.5, place.top + place.height);
  ctx.moveTo(place.left, y - 0.5);
  ctx.lineTo(place.left + place.width, y - 0.5);
  ctx.stroke();
  ctx.fillStyle = ink.soft;
  ctx.font = '11px system-ui, "DejaVu Sans", "WenQuanYi Micro Hei", sans-serif';
  ctx.textBaseline = 'middle';
  ctx.save();
  ctx.translate(x + 52, place.top);
  ctx.rotate(Math.PI / 2);
  ctx.fillText(titles.entropy, 0, 0, Math.max(60, place.height));
  ctx.restore();
  ctx.fillText(titles.received(short(top, 2)), place.left, y + 40);
  ctx.restore();
}

/** Colours of text and lines from the page's style, or the light ones. */
export function inks(element) {
  const style = element ? getComputedStyle(element) : null;
  const of = (name, light) => style?.getPropertyValue(name).trim() || light;
  return { text: of('--text', '#1b1b1b'), soft: of('--soft', '#595959'), frame: of('--frame', '#767676'), paper: of('--paper', '#ffffff'), bar: of('--bar', '#7a8794') };
}
/** '#rrggbb' as a pixel. */
export function pixel(hex) {
  const n = parseInt(hex.slice(1), 16);
  return (0xff000000 | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
}
export { css, table };
