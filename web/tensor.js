// Tensors of requests and replies: {shape, data}, row-major. null, a blocked cell of a reply, is −Infinity.
import { fromBrain, fromHalf } from './numbers.js';

export const size = (shape) => shape.reduce((product, n) => product * n, 1);
export const isTensor = (x) => !!x && Array.isArray(x.shape) && x.data?.length !== undefined && x.dtype === undefined;

const readers = {
  F64: [8, (view, at) => view.getFloat64(at, true)],
  F32: [4, (view, at) => view.getFloat32(at, true)],
  F16: [2, (view, at) => fromHalf(view.getUint16(at, true))],
  BF16: [2, (view, at) => fromBrain(view.getUint16(at, true))],
  BOOL: [1, (view, at) => view.getUint8(at)],
  I64: [8, (view, at) => Number(view.getBigInt64(at, true))],
  I32: [4, (view, at) => view.getInt32(at, true)],
};

function fromBytes(dtype, shape, bytes) {
  const reader = readers[dtype];
  if (!reader) throw new Error(`unknown dtype ${dtype}`);
  const n = size(shape);
  if (bytes.byteLength !== n * reader[0]) throw new Error(`expected ${n * reader[0]} bytes, got ${bytes.byteLength}`);
  if (dtype === 'F32' && bytes.byteOffset % 4 === 0) return { shape, data: new Float32Array(bytes.buffer, bytes.byteOffset, n) };
  if (dtype === 'F64' && bytes.byteOffset % 8 === 0) return { shape, data: new Float64Array(bytes.buffer, bytes.byteOffset, n) };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const data = dtype === 'F64' || dtype === 'I64' ? new Float64Array(n) : new Float32Array(n);
  for (let i = 0; i < n; i++) data[i] = reader[1](view, i * reader[0]);
  return { shape, data, boolean: dtype === 'BOOL' };
}

function unbase64(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/** Nested arrays, {shape, data} or {shape, dtype, base64} as a tensor. Throws an Error that says what is wrong. */
export function tensorOf(value) {
  if (value?.base64 !== undefined) return fromBytes(value.dtype, value.shape, unbase64(value.base64));
  if (value?.shape) return { shape: value.shape, data: Float64Array.from(value.data, number) };
  const shape = [];
  for (let level = value; Array.isArray(level); level = level[0]) shape.push(level.length);
  const data = new Float64Array(size(shape));
  let at = 0;
  let boolean = false;
  const walk = (level, depth) => {
    if (depth === shape.length) {
      if (Array.isArray(level)) throw new Error('rows of unequal depth');
      boolean ||= typeof level === 'boolean';
      data[at++] = number(level);
      return;
    }
    if (!Array.isArray(level) || level.length !== shape[depth]) throw new Error('rows of unequal length');
    for (const item of level) walk(item, depth + 1);
  };
  if (!Array.isArray(value)) throw new Error('not a tensor');
  walk(value, 0);
  return { shape, data, boolean };
}
function number(x) {
  if (x === null || x === '-Infinity') return -Infinity;
  const n = typeof x === 'string' ? { Infinity, NaN }[x] ?? NaN : Number(x);
  if (typeof x === 'string' && x !== 'NaN' && n !== Infinity) throw new Error(`not a number: ${x}`);
  return n;
}

/** A tensor as nested arrays. */
export function nested({ shape, data }) {
  let at = 0;
  const walk = (depth) => {
    if (depth === shape.length) return data[at++];
    return Array.from({ length: shape[depth] }, () => walk(depth + 1));
  };
  return walk(0);
}

/** Matrix number `index` of a tensor: {rows, cols, data}, a view. */
export function matrix({ shape, data }, index = 0) {
  const cols = shape.at(-1) ?? 1;
  const rows = shape.at(-2) ?? 1;
  return { rows, cols, data: data.subarray(index * rows * cols, (index + 1) * rows * cols) };
}
export const matrices = ({ shape }) => size(shape.slice(0, -2));

/** A tensor as the service reads it fastest, in base64. */
export function base64Tensor({ shape, data, boolean }) {
  const [dtype, numbers] = boolean ? ['BOOL', Uint8Array.from(data)] : data instanceof Float32Array ? ['F32', data.slice()] : ['F64', Float64Array.from(data)];
  const bytes = new Uint8Array(numbers.buffer);
  let raw = '';
  for (let i = 0; i < bytes.length; i += 32768) raw += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return { shape, dtype, base64: btoa(raw) };
}

/** A file of safetensors: {tensors, metadata}. */
export function readSafetensors(buffer) {
  const view = new DataView(buffer);
  const length = Number(view.getBigUint64(0, true));
  if (!(length <= buffer.byteLength - 8)) throw new Error('not a safetensors file');
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(header)
    .filter(([name]) => name !== '__metadata__')) {
    const start = 8 + length + from;
    const bytes = new Uint8Array(buffer, start, to - from);
    tensors[name] = fromBytes(dtype, shape, start % 8 ? bytes.slice() : bytes);
  }
  return { tensors, metadata: header.__metadata__ ?? {} };
}

/** The bytes of a safetensors file of float32 tensors. */
export function writeSafetensors(tensors, metadata) {
  const header = metadata ? { __metadata__: metadata } : {};
  let at = 0;
  for (const [name, { shape }] of Object.entries(tensors)) {
    header[name] = { dtype: 'F32', shape, data_offsets: [at, at + 4 * size(shape)] };
    at += 4 * size(shape);
  }
  let text = new TextEncoder().encode(JSON.stringify(header));
  const pad = (8 - (text.length % 8)) % 8;
  const out = new Uint8Array(8 + text.length + pad + at).fill(32);
  new DataView(out.buffer).setBigUint64(0, BigInt(text.length + pad), true);
  out.set(text, 8);
  at = 8 + text.length + pad;
  for (const { data } of Object.values(tensors)) {
    const bytes = new Uint8Array(Float32Array.from(data).buffer);
    out.set(bytes, at);
    at += bytes.length;
  }
  return out;
}
