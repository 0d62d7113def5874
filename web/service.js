// The service behind the page: a request object goes out, tensors come back.
import { base64Tensor, isTensor, readSafetensors, size, tensorOf } from './tensor.js';

/** A problem document of the service, or the lack of any answer. */
export class Problem extends Error {
  constructor({ title, detail, pointer, status, code }) {
    super(detail || title);
    Object.assign(this, { title, detail, pointer, status, code });
  }
}

/** The text of a request: its tensors as they are written, those held as numbers in base64. */
export function requestText(request) {
  return JSON.stringify(request, (_key, value) => (isTensor(value) ? base64Tensor(value) : value));
}

/** Names of a request that hold tensors of numbers. */
export const tensorFields = ['q', 'k', 'v', 'x', 'context', 'w_q', 'w_k', 'w_v', 'w_o', 'w_qkv', 'b_q', 'b_k', 'b_v', 'b_o',
  'b_qkv', 'mask', 'bias', 'past_k', 'past_v', 'head_mask'];
export const pathOf = (request) => (request.x !== undefined || request.w_q !== undefined || request.w_qkv !== undefined ? '/mha' : '/attention');

/**
 * POSTs a request. Resolves to {tensors, timing, text}; rejects with a Problem, or with AbortError.
 * binary: the reply as safetensors, which a large one should be.
 */
export async function post(path, request, { signal, binary = false } = {}) {
  const body = typeof request === 'string' ? request : requestText(request);
  let response;
  try {
    response = await fetch(path, {
      method: 'POST',
      body,
      signal,
      headers: { 'Content-Type': 'application/json', Accept: binary ? 'application/vnd.safetensors, application/problem+json' : 'application/json' },
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem({ title: 'no answer', detail: error.message, code: 'unreachable' });
  }
  if (!response.ok) throw new Problem(await response.json().catch(() => ({ title: response.statusText, status: response.status })));
  const timing = {};
  for (const [, name, ms] of (response.headers.get('Server-Timing') ?? '').matchAll(/(\w+);dur=([\d.]+)/g)) timing[name] = +ms;
  if (binary) return { tensors: readSafetensors(await response.arrayBuffer()).tensors, timing };
  const text = await response.text();
  const tensors = {};
  for (const [name, value] of Object.entries(JSON.parse(text))) tensors[name] = tensorOf(value);
  return { tensors, timing, text };
}

/** Shape of a field as it is written in a request. */
export function shapeOf(value) {
  if (value?.shape) return value.shape;
  const shape = [];
  for (let level = value; Array.isArray(level); level = level[0]) shape.push(level.length);
  return shape;
}

/** How many score cells an /attention or /mha request has, as far as its shapes say. */
export function cells(request) {
  const past = request.past_k ? shapeOf(request.past_k).at(-2) : 0;
  if (pathOf(request) === '/mha') {
    const x = shapeOf(request.x ?? []);
    const c = request.context ? shapeOf(request.context) : x;
    return (request.num_heads ?? 1) * (x.at(-2) ?? 0) * ((c.at(-2) ?? 0) + past) * (x.length > 2 ? x[0] : 1);
  }
  const axis = request.layout === 'bnhd' ? -3 : -2;
  const q = shapeOf(request.q ?? []);
  const k = shapeOf(request.k ?? []);
  const lead = size(q.slice(0, -2)) * (request.num_heads ?? 1);
  return axis === -2 ? lead * (q.at(-2) ?? 0) * ((k.at(-2) ?? 0) + past)
    : (q[0] ?? 0) * (q.at(-2) ?? 0) * (q.at(-3) ?? 0) * ((k.at(-3) ?? 0) + past);
}
