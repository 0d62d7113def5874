// Pictures and files of a whole matrix, whatever part of it is on screen.
import { css, inkOn, level, table } from './colour.js';
import { LOOKS, layout, paintCells, paintFrame, inks, shade } from './figure.js';
import { compact, short } from './numbers.js';
import { t } from './text.js';

const INK = inks(null);
const WIDTH = 1200;
const LEGEND = 74;
const rgb = (c) => `rgb(${c.join(',')})`;

function geometry(view) {
  const most = (n, label) => Math.max(0, ...Array.from({ length: Math.min(n, 300) }, (_, i) => Math.min(18, label(i).length)));
  const left = 44 + 7 * most(view.model.rows, view.rowLabels);
  const top = 40 + 7 * most(view.model.cols, view.colLabels);
  const place = layout({ rows: view.model.rows, cols: view.model.cols, width: WIDTH, height: WIDTH, left, top: top + 34, right: 24, bottom: LEGEND, most: 48 });
  return { place, width: Math.max(560, Math.ceil(place.left + place.width + 24)), height: Math.ceil(place.top + place.height + LEGEND) };
}

/** The colour bar's numbers and its words. */
export function legendWords({ style, block }) {
  const { low, high } = style.range === 'row' ? { low: 0, high: t('rowMax') } : style.range;
  const name = (x) => (typeof x === 'string' ? x : short(x, 4));
  return { low: name(low), high: name(high), words: [style.log ? t('log') : t('linear'), t(`range_${style.rangeName}`), style.pool && block > 1 ? t(style.pool === 'mean' ? 'pooledMean' : 'pooledMax', { n: block }) : ''].filter(Boolean).join(' · ') };
}

/** A canvas with title, axes, matrix and legend, at twice the pixels. */
export function picture(view) {
  const { place, width, height } = geometry(view);
  const canvas = document.createElement('canvas');
  const ratio = 2;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const ctx = canvas.getContext('2d');
  ctx.fillStyle = '#fff';
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  const { model, style } = view;
  const block = model.rows && model.cols ? paintCells(ctx, model, style, { place, ratio }) : 1;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.save();
  ctx.translate(0, 34);
  paintFrame(ctx, model, style, { place: { ...place, top: place.top - 34 }, rowLabels: view.rowLabels, colLabels: view.colLabels, titles: view.titles, ink: INK });
  ctx.restore();
  ctx.fillStyle = INK.text;
  ctx.font = '600 16px system-ui, "DejaVu Sans", sans-serif';
  ctx.textBaseline = 'middle';
  ctx.fillText(view.title, 12, 18, width - 24);
  const words = legendWords({ style, block });
  const y = place.top + place.height + 16;
  const colours = table(style.signed ? 'signed' : style.map);
  for (let l = 0; l < 256; l++) (ctx.fillStyle = css(colours, l)), ctx.fillRect(place.left + l, y, 1.5, 12);
  ctx.strokeStyle = INK.frame;
  ctx.strokeRect(place.left - 0.5, y - 0.5, 257, 13);
  ctx.fillStyle = INK.text;
  ctx.font = '12px system-ui, "DejaVu Sans", "WenQuanYi Micro Hei", sans-serif';
  ctx.fillText(words.low, place.left, y + 24);
  ctx.textAlign = 'right';
  ctx.fillText(words.high, place.left + 256, y + 24);
  ctx.textAlign = 'left';
  ctx.fillText(words.words, place.left, y + 42, width - place.left - 8);
  ctx.fillStyle = rgb(LOOKS.blocked);
  for (let k = 0; k < 4; k++) ctx.fillRect(place.left + 290 + 5 * k, y, 2, 12);
  ctx.strokeRect(place.left + 288, y - 0.5, 22, 13);
  ctx.fillStyle = INK.text;
  ctx.fillText(t('blocked'), place.left + 316, y + 6);
  return canvas;
}
export const png = (view) => new Promise((resolve) => picture(view).toBlob(resolve, 'image/png'));

const escape = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd');

/** A picture as SVG that stands alone: looks are attributes, text is text; above 64 × 64 the cells are one image. */
export function svgText(view) {
  const { place, width, height } = geometry(view);
  const { model, style } = view;
  const { rows, cols, data, blocked } = model;
  const colours = table(style.signed ? 'signed' : style.map);
  const of = shade(model, style);
  const out = [];
  const text = (x, y, content, more = '') => out.push(`<text x="${x}" y="${y}" ${more}>${escape(content)}</text>`);
  out.push(`<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, Noto Sans, DejaVu Sans, sans-serif" font-size="12" fill="${INK.text}">`,
    `<title>${escape(view.title)}</title><desc>${escape(t('svgDesc', { rows, cols }))}</desc>`,
    `<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse"><path d="M0 5L5 0" stroke="${rgb(LOOKS.blocked)}" stroke-width="1.3"/></pattern></defs>`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`);
  text(12, 22, view.title, 'font-size="16" font-weight="600"');
  text(place.left, 46, `${view.titles.columns} →`, `fill="${INK.soft}"`);
  text(0, 0, `${view.titles.rows} →`, `fill="${INK.soft}" transform="translate(14 ${place.top}) rotate(90)"`);
  let block = 1;
  if (rows <= 64 && cols <= 64) {
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < cols; j++) {
        const l = of(data[i * cols + j], i, blocked[i * cols + j]);
        const fill = l >= 0 ? css(colours, l) : l === -1 ? 'url(#hatch)' : rgb(l === -2 ? LOOKS.broken : LOOKS.outside);
        const x = +(place.left + j * place.cw).toFixed(2);
        const y = +(place.top + i * place.ch).toFixed(2);
        out.push(`<rect x="${x}" y="${y}" width="${+place.cw.toFixed(2)}" height="${+place.ch.toFixed(2)}" fill="${fill.replace(/rgb\((\d+) (\d+) (\d+)\)/, 'rgb($1,$2,$3)')}"/>`);
        if (l >= 0 && place.cw >= 28 && place.ch >= 28) text(+(x + place.cw / 2).toFixed(2), +(y + place.ch / 2 + 4).toFixed(2), compact(data[i * cols + j], 3), `text-anchor="middle" font-size="11" fill="${inkOn(colours, l)}"`);
      }
    }
  } else {
    const canvas = document.createElement('canvas');
    canvas.width = Math.round(place.width);
    canvas.height = Math.round(place.height);
    block = paintCells(canvas.getContext('2d'), model, style, { place: { ...place, left: 0, top: 0 }, ratio: 1 });
    out.push(`<image x="${place.left}" y="${place.top}" width="${place.width}" height="${place.height}" xlink:href="${canvas.toDataURL('image/png')}"/>`);
  }
  const every = (size) => (size >= 10 ? 1 : Math.ceil(14 / size));
  for (let i = 0; i < rows; i += every(place.ch)) text(place.left - 6, +(place.top + (i + 0.5) * place.ch + 4).toFixed(2), view.rowLabels(i), 'text-anchor="end"');
  for (let j = 0; j < cols; j += every(place.cw)) text(0, 0, view.colLabels(j), `transform="translate(${+(place.left + (j + 0.5) * place.cw + 4).toFixed(2)} ${place.top - 6}) rotate(-90)"`);
  out.push(`<rect x="${place.left}" y="${place.top}" width="${place.width}" height="${place.height}" fill="none" stroke="${INK.frame}"/>`);
  const y = place.top + place.height + 16;
  for (let l = 0; l < 256; l += 4) out.push(`<rect x="${place.left + l}" y="${y}" width="4.5" height="12" fill="${css(colours, l).replace(/rgb\((\d+) (\d+) (\d+)\)/, 'rgb($1,$2,$3)')}"/>`);
  const words = legendWords({ style, block });
  text(place.left, y + 28, words.low);
  text(place.left + 256, y + 28, words.high, 'text-anchor="end"');
  text(place.left, y + 46, words.words);
  out.push(`<rect x="${place.left + 288}" y="${y}" width="22" height="12" fill="url(#hatch)" stroke="${INK.frame}"/>`);
  text(place.left + 316, y + 10, t('blocked'));
  return `${out.join('\n')}\n</svg>\n`;
}

const field = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
/** The whole matrix with its labels; blocked cells are empty. */
export function csv({ model, rowLabels, colLabels }) {
  const lines = [['', ...Array.from({ length: model.cols }, (_, j) => field(colLabels(j)))].join(',')];
  for (let i = 0; i < model.rows; i++) {
    const line = [field(rowLabels(i))];
    for (let j = 0; j < model.cols; j++) line.push(model.blocked[i * model.cols + j] ? '' : String(model.data[i * model.cols + j]));
    lines.push(line.join(','));
  }
  return `${lines.join('\r\n')}\r\n`;
}
export { level };
