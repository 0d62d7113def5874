// The arithmetic behind a cell of the walk-through, written out with its numbers.
import { full } from './numbers.js';

const LONG = 16;
const SOME = 8;
const bracket = (x) => (x < 0 ? `(${full(x)})` : full(x));

/** Terms with plus signs between; more than 16: eight, and how many more there are. */
export function sum(terms, all) {
  if (terms.length <= LONG || all) return { text: terms.join(' + ') || '0', hidden: 0 };
  return { text: terms.slice(0, SOME).join(' + '), hidden: terms.length - SOME };
}
const products = (n, a, b) => Array.from({ length: n }, (_, t) => `${bracket(a(t))}·${bracket(b(t))}`);

export function scaleText(scale, dk) {
  if (scale === undefined || scale === null || scale === '1/sqrt(d_k)') return ` ÷ √${dk}`;
  if (scale === '1/d_k') return ` ÷ ${dk}`;
  return ` · ${bracket(scale === '1' ? 1 : scale)}`;
}

/**
 * calc: sizes and matrices of a trace (walk.js). Gives {title: [key, values], terms, tail, result, sources, notes},
 * where sources are [matrix id, 'row' | 'column' | 'cell', i, j].
 */
export function explain(calc, id, i, j) {
  const { request, dk, dv, group, at } = calc;
  const [name, head] = id.includes(':') ? [id.split(':')[0], +id.split(':')[1]] : [id, 0];
  const value = at(id, i, j);
  const plain = (terms, sources, more = {}) => ({ terms, result: value, sources, ...more });
  if (name === 'q' || name === 'k' || name === 'v') {
    const from = name === 'q' || !request.context ? 'x' : 'context';
    if (!calc.has(from)) return null;
    const n = calc.size(from)[1];
    const bias = request[`b_${name}`];
    const terms = products(n, (t) => at(from, i, t), (t) => at(`w_${name}`, t, j));
    if (bias) terms.push(full(bias[j]));
    return plain(terms, [[from, 'row', i], [`w_${name}`, 'column', 0, j]]);
  }
  const kv = Math.floor(head / group);
  if (name === 'scores') {
    return plain(products(dk, (t) => at('q', i, head * dk + t), (t) => at('k', j, kv * dk + t)),
      [['q', 'row', i, [head * dk, (head + 1) * dk]], ['k', 'row', j, [kv * dk, (kv + 1) * dk]]]);
  }
  if (name === 'scaled') return plain([`${bracket(at(`scores:${head}`, i, j))}${scaleText(request.scale, dk)}`], [[`scores:${head}`, 'cell', i, j]]);
  if (name === 'capped') {
    const c = full(request.softcap);
    return plain([`${c}·tanh(${full(at(`scaled:${head}`, i, j))} ÷ ${c})`], [[`scaled:${head}`, 'cell', i, j]]);
  }
  const before = calc.has(`capped:${head}`) ? `capped:${head}` : `scaled:${head}`;
  if (name === 'masked') {
    const rules = calc.blocked(head, i, j);
    if (rules.length) return { rules, result: value, sources: [[before, 'cell', i, j]], terms: [] };
    const bias = calc.has('bias') ? at('bias', i, j) : 0;
    return plain([full(at(before, i, j))].concat(bias ? [bracket(bias)] : []), [[before, 'cell', i, j]].concat(bias ? [['bias', 'cell', i, j]] : []));
  }
  if (name === 'weights') {
    const keys = Array.from({ length: calc.nk }, (_, t) => t).filter((t) => !calc.blocked(head, i, t).length);
    const rules = calc.blocked(head, i, j);
    const sources = [[`masked:${head}`, 'row', i]];
    if (!keys.length) return { rules, nothing: true, result: value, sources, terms: [] };
    if (rules.length) return { rules, result: value, sources, terms: [] };
    const score = (t) => at(`masked:${head}`, i, t);
    const max = Math.max(...keys.map(score));
    const exps = keys.map((t) => `exp(${full(score(t))} − ${bracket(max)})`);
    return { numerator: `exp(${full(score(j))} − ${bracket(max)})`, terms: exps, result: value, sources,
      rowSum: keys.reduce((total, t) => total + at(`weights:${head}`, i, t), 0), exp: Math.exp(score(j) - max), expSum: keys.reduce((total, t) => total + Math.exp(score(t) - max), 0) };
  }
  if (name === 'heads' || (name === 'output' && !calc.has('w_o'))) {
    const h = Math.floor(j / dv);
    const v = Math.floor(h / group);
    const keys = Array.from({ length: calc.nk }, (_, t) => t).filter((t) => !calc.blocked(h, i, t).length);
    if (!keys.length) return { nothing: true, result: value, sources: [[`weights:${h}`, 'row', i]], terms: [] };
    const terms = keys.map((t) => `${bracket(at(`weights:${h}`, i, t))}·${bracket(at('v', t, v * dv + (j % dv)))}`);
    return plain(terms, [[`weights:${h}`, 'row', i], ['v', 'column', 0, v * dv + (j % dv)]], { factor: request.head_mask?.[h] });
  }
  if (name === 'output') {
    const n = calc.size('heads')[1];
    const terms = products(n, (t) => at('heads', i, t), (t) => at('w_o', t, j));
    if (request.b_o) terms.push(full(request.b_o[j]));
    return plain(terms, [['heads', 'row', i], ['w_o', 'column', 0, j]]);
  }
  return null;
}
