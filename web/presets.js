// Requests to begin with. Their numbers are made by hand or by a seeded generator; no trained model stands behind them.
import { random } from './numbers.js';

export const walks = {
  worked: {
    x: [[1, 0, 1, 0], [0, 1, 0, 1]],
    w_q: [[1, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 1]],
    w_k: [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]],
    w_v: [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]],
    num_heads: 1,
    tokens: ['the', 'cat'],
  },
  sentence: {
    x: [[1, 0, 0, 1], [0, 2, 1, 0], [0, 1, 2, 0], [1, 0, 0, 1]],
    w_q: [[1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]],
    w_k: [[1, 0, 1, 0], [0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 0]],
    w_v: [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
    w_o: [[1, 0, 0, 0.5], [0, 1, 0.5, 0], [0, 0.5, 1, 0], [0.5, 0, 0, 1]],
    num_heads: 2,
    causal: true,
    tokens: ['the', 'cat', 'sees', 'the'],
  },
  cross: {
    x: [[1, 0, 1], [0, 1, 1]],
    context: [[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0]],
    w_q: [[1, 0], [0, 1], [1, 1]],
    w_k: [[1, 0], [0, 1], [0, 1], [1, 0]],
    w_v: [[1, 0], [0, 1], [0.5, 0.5], [1, 0]],
    num_heads: 1,
    tokens: ['黑', '猫'],
    key_tokens: ['the', 'black', 'cat'],
  },
  grouped: {
    x: [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]],
    w_q: [[1, 0, 0, 1, 1, 0, 0, 1], [0, 1, 1, 0, 0, 1, 1, 0], [1, 1, 0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1, 0, 0]],
    w_k: [[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]],
    w_v: [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
    num_heads: 4,
    num_kv_heads: 2,
    tokens: ['one', 'two', 'three'],
  },
};

const hash = (text) => {
  let h = 2166136261;
  for (const c of text) h = Math.imul(h ^ c.codePointAt(0), 16777619);
  return h >>> 0;
};
const round = (x) => Math.round(x * 1000) / 1000;
const vector = (seed, n, size) => {
  const { normal } = random(seed);
  const v = Array.from({ length: n }, normal);
  const norm = Math.hypot(...v);
  return v.map((x) => (size * x) / norm);
};
const place = (i, n, size) => Array.from({ length: n }, (_, t) => (size * (t % 2 ? Math.cos : Math.sin)(i / 3 ** Math.floor(t / 2))) / Math.sqrt(n / 2));

/** Keys and queries of four heads, each with a habit: the token before, the same word, the first token, all alike. */
function habits(tokens, heads, kvHeads = heads) {
  const n = tokens.length;
  const d = 8;
  const key = {
    before: (i) => place(i, d, 6),
    same: (i) => vector(hash(tokens[i]), d, 5),
    first: (i) => (i === 0 ? vector(7, d, 5) : vector(hash(tokens[i]) + 1, d, 1)),
    alike: (i) => vector(hash(tokens[i]) + 2, d, 0.8),
  };
  const query = {
    before: (i) => place(i - 1, d, 6),
    same: (i) => vector(hash(tokens[i]), d, 3),
    first: () => vector(7, d, 2.5),
    alike: (i) => vector(hash(tokens[i]) + 3, d, 0.8),
  };
  const names = ['before', 'same', 'first', 'alike'];
  const rows = (f) => Array.from({ length: n }, (_, i) => f(i).map(round));
  const kvName = (g) => names[g % 4];
  const q = Array.from({ length: heads }, (_, h) => {
    const group = Math.floor(h / (heads / kvHeads));
    const strength = 1 + 0.5 * (h % (heads / kvHeads));
    return rows((i) => query[kvName(group)](i).map((x) => x * strength));
  });
  const k = Array.from({ length: kvHeads }, (_, g) => rows((i) => key[kvName(g)](i)));
  const v = Array.from({ length: kvHeads }, (_, g) => rows((i) => vector(hash(tokens[i]) + 10 + g, 4, 1)));
  return { q: [q], k: [k], v: [v] };
}

const sentence = 'The cat sat on the mat because the cat was tired .'.split(' ');

function aligned(tokens, keys, links, d = 16) {
  const k = keys.map((word) => vector(hash(word), d, 4).map(round));
  const q = tokens.map((_, i) => {
    const sum = Array(d).fill(0);
    for (const [j, strength] of links[i]) k[j].forEach((x, c) => (sum[c] += strength * x));
    return sum.map(round);
  });
  return { tokens, key_tokens: keys, q, k, v: keys.map((word) => vector(hash(word) + 1, 4, 1).map(round)) };
}

export const examples = {
  causal: () => ({ tokens: sentence, ...habits(sentence, 4), causal: true }),
  cross: () => aligned(['The', 'cat', 'drank', 'the', 'milk'], ['Someone', 'left', 'milk', 'out', ',', 'and', 'the', 'cat', 'found', 'it'],
    [[[6, 1]], [[7, 1.2]], [[2, 0.6], [8, 0.7]], [[6, 0.8]], [[2, 1], [9, 0.9]]]),
  grouped: () => ({ tokens: sentence, ...habits(sentence, 8, 2), causal: true }),
  window: () => ({ tokens: sentence, ...habits(sentence, 4), window: [3, 0] }),
  translation: () => aligned(['那只', '黑猫', '昨天', '在', '厨房', '里', '喝了', '牛奶', '。'], ['Yesterday', 'the', 'black', 'cat', 'drank', 'milk', 'in', 'the', 'kitchen', '.'],
    [[[1, 1]], [[2, 0.8], [3, 0.9]], [[0, 1.1]], [[6, 1]], [[8, 1.1]], [[6, 0.8]], [[4, 1.1]], [[5, 1.1]], [[9, 1.1]]]),
  padding: () => {
    const tokens = ['I', 'like', 'tea', '<pad>', '<pad>', '<pad>'];
    const { q, k, v } = habits(tokens, 4);
    return { tokens, q, k, v, kv_lengths: [3] };
  },
  large: () => {
    const n = 4096;
    const d = 16;
    const { normal } = random(4096);
    const q = new Float32Array(n * d);
    const k = new Float32Array(n * d);
    const v = new Float32Array(n * 4);
    for (let i = 0; i < n; i++) {
      const p = place(i / 40, d, 6);
      for (let c = 0; c < d; c++) {
        q[i * d + c] = p[c] + 0.5 * normal();
        k[i * d + c] = p[c] + 0.5 * normal() + (i === 0 ? p[c] / 4 : 0);
      }
    }
    for (let i = 0; i < v.length; i++) v[i] = normal();
    return { q: { shape: [n, d], data: q }, k: { shape: [n, d], data: k }, v: { shape: [n, 4], data: v }, causal: true };
  },
};
