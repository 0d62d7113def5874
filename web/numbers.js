// Numbers as text, and what a computer's numbers are spaced by.

/** All digits: what `data-value` holds, and what a reply held. */
export function full(x) {
  if (x === Infinity) return '∞';
  if (x === -Infinity) return '−∞';
  return Number.isNaN(x) ? 'NaN' : String(shortest(x)).replaceAll('-', '−');
}
/** A float32 held as a double, as the shortest decimal of its type. */
function shortest(x) {
  if (Math.fround(x) !== x || Number.isInteger(x)) return x;
  for (let digits = 1; digits < 9; digits++) {
    const y = Number(x.toPrecision(digits));
    if (Math.fround(y) === x) return y;
  }
  return Number(x.toPrecision(9));
}

/** At most `digits` decimals; a number that is not zero never reads as zero. */
export function short(x, digits = 3) {
  if (!Number.isFinite(x)) return full(x);
  if (x === 0) return '0';
  const size = Math.abs(x);
  if (size >= 1e6 || size < 0.5 * 10 ** -digits) {
    const [mantissa, exponent] = x.toExponential(size >= 1e6 ? 2 : 1).split('e');
    return `${mantissa}e${exponent.replace('+', '')}`.replaceAll('-', '−');
  }
  const decimals = size >= 1000 ? Math.min(digits, 1) : size >= 100 ? Math.min(digits, 2) : digits;
  let text = x.toFixed(decimals);
  if (text.includes('.')) text = text.replace(/0+$/, '').replace(/\.$/, '');
  return text.replace('-', '−');
}

/** The same in as little room as a cell has. */
export function compact(x, digits = 3) {
  if (!Number.isFinite(x) || x === 0 || Math.abs(x) >= 0.5 * 10 ** -digits) return short(x, digits);
  return x.toExponential(0).replaceAll('-', '−');
}

/** A share between 0 and 1 in percent. */
export const percent = (x) => `${short(100 * x, 1)} %`;

const bits = new DataView(new ArrayBuffer(8));

/** Spacing of the numbers of a type around x: from |x| to the next larger one. */
export function ulp(x, type = 'float32') {
  const size = Math.abs(x);
  if (!Number.isFinite(size)) return NaN;
  const [digits, least] = { float32: [23, -126], float16: [10, -14], bfloat16: [7, -126], float64: [52, -1022] }[type];
  bits.setFloat64(0, size);
  const exponent = ((bits.getUint32(0) >>> 20) & 0x7ff) - 1023;
  return 2 ** (Math.max(exponent, least) - digits);
}

/** A half (F16) or brain (BF16) number from its 16 bits. */
export function fromHalf(h) {
  const sign = h & 0x8000 ? -1 : 1;
  const exponent = (h >> 10) & 31;
  const fraction = h & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
}
export function fromBrain(h) {
  bits.setUint32(0, h << 16);
  return bits.getFloat32(0);
}

/** Bytes in powers of 1,024. */
export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (n >= 1024 && unit < 5) (n /= 1024), unit++;
  return `${n >= 100 || Number.isInteger(n) ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
}

/** Counts in powers of 1,000: 1.2 G. */
export function count(n) {
  const units = ['', 'k', 'M', 'G', 'T', 'P', 'E'];
  let unit = 0;
  while (n >= 1000 && unit < 6) (n /= 1000), unit++;
  return `${n >= 100 || Number.isInteger(n) ? Math.round(n) : n.toFixed(1)}${unit ? ` ${units[unit]}` : ''}`;
}

/** Entropy in bits of a row of weights. */
export function entropy(row) {
  let sum = 0;
  for (const w of row) if (w > 0) sum -= w * Math.log2(w);
  return sum;
}

/** The same numbers in every browser: mulberry32, and a normal distribution from it by Box and Muller. */
export function random(seed) {
  let a = seed >>> 0;
  const uniform = () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), a | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  return { uniform, normal };
}
