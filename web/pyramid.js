// A large matrix in levels of half the size each: what a pixel shows where cells are smaller than pixels.
// Also runs as a worker: takes {data, rows, cols, rules}, gives the blocked cells and the levels.
import { blockedCells } from './rules.js';

/** Levels 1, 2, … of a matrix: {rows, cols, max, mean, open}: of blocks of 2 × 2, 4 × 4, … open cells; open: their number. */
export function levels({ rows, cols, data }, blocked) {
  const out = [];
  let below = null;
  while (Math.max(rows, cols) > 256) {
    const r = Math.ceil(rows / 2);
    const c = Math.ceil(cols / 2);
    const next = { rows: r, cols: c, max: new Float32Array(r * c), mean: new Float32Array(r * c), open: new Float32Array(r * c) };
    for (let i = 0, at = 0; i < r; i++) {
      for (let j = 0; j < c; j++, at++) {
        let max = -Infinity;
        let sum = 0;
        let open = 0;
        for (let y = 2 * i; y < Math.min(2 * i + 2, rows); y++) {
          for (let x = 2 * j; x < Math.min(2 * j + 2, cols); x++) {
            const p = y * cols + x;
            const n = below ? below.open[p] : blocked[p] ? 0 : 1;
            if (!n) continue;
            const m = below ? below.max[p] : data[p];
            if (m > max) max = m;
            sum += n * (below ? below.mean[p] : data[p]);
            open += n;
          }
        }
        next.max[at] = max;
        next.mean[at] = open ? sum / open : 0;
        next.open[at] = open;
      }
    }
    out.push((below = next));
    rows = r;
    cols = c;
  }
  return out;
}

/** Least, greatest of the open, finite cells; sums and entropies of rows, sums of columns. */
export function summary({ rows, cols, data }, blocked) {
  let low = Infinity;
  let high = -Infinity;
  let least = Infinity;
  const entropy = new Float64Array(rows);
  const rowMax = new Float64Array(rows).fill(-Infinity);
  const rowSum = new Float64Array(rows);
  const open = new Uint32Array(rows);
  const received = new Float64Array(cols);
  for (let i = 0, at = 0; i < rows; i++) {
    for (let j = 0; j < cols; j++, at++) {
      const x = data[at];
      if (blocked[at]) continue;
      open[i]++;
      if (!Number.isFinite(x)) continue;
      if (x < low) low = x;
      if (x > high) high = x;
      if (x > rowMax[i]) rowMax[i] = x;
      if (x > 0 && x < least) least = x;
      rowSum[i] += x;
      received[j] += x;
      if (x > 0) entropy[i] -= x * Math.log2(x);
    }
  }
  if (low > high) low = high = 0;
  return { low, high, least, entropy, rowMax, rowSum, open, received };
}

/** All that a heatmap needs to know of a matrix. */
export function prepare({ data, rows, cols, rules }) {
  const blocked = rules ? blockedCells(rules) : new Uint8Array(rows * cols);
  const matrix = { data, rows, cols };
  return { ...matrix, blocked, levels: levels(matrix, blocked), ...summary(matrix, blocked) };
}

if (typeof WorkerGlobalScope !== 'undefined' && globalThis instanceof WorkerGlobalScope) {
  globalThis.onmessage = ({ data }) => {
    const out = prepare(data);
    postMessage(out, [out.data.buffer, out.blocked.buffer]);
  };
}

/** prepare, in a worker where it would hold up the page. signal: cancels. */
export function prepareAside(input, signal) {
  if (input.rows * input.cols < 200000) return Promise.resolve(prepare(input));
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('pyramid.js', import.meta.url), { type: 'module' });
    const end = (how, value) => (worker.terminate(), how(value));
    worker.onmessage = ({ data }) => end(resolve, data);
    worker.onerror = (error) => end(reject, new Error(error.message || 'worker'));
    signal?.addEventListener('abort', () => end(reject, new DOMException('cancelled', 'AbortError')));
    const data = input.data.slice(); // a buffer of its own, so that it can be handed over
    worker.postMessage({ ...input, data }, [data.buffer]);
  });
}
