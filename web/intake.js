// What was pasted or dropped, as a request or as tensors by name.
import { readSafetensors, tensorOf } from './tensor.js';
import { t } from './text.js';

// JSON as Python's json writes it too: NaN and Infinity outside of strings
const bare = (text) => text.replace(/"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/g, (part) => (part[0] === '"' ? part : part === 'NaN' ? '"NaN"' : part[0] === '-' ? '"-Infinity"' : '"Infinity"'));

export function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    try {
      return JSON.parse(bare(text));
    } catch {
      throw new Error(`${t('notJson')} ${error.message}`);
    }
  }
}

/** A request from the tensors and the metadata of a safetensors file. */
export function requestOf({ tensors, metadata }) {
  const request = { ...tensors };
  for (const [name, value] of Object.entries(metadata)) {
    if (name === 'format') continue;
    try {
      request[name] = JSON.parse(value);
    } catch {
      request[name] = value;
    }
  }
  return request;
}

/** Text or bytes: {request} with q or x in it, or {matrices}: tensors by name. */
export async function take(input) {
  let value;
  if (typeof input === 'string') value = parseJson(input);
  else {
    const bytes = new Uint8Array(await input.arrayBuffer());
    const text = bytes.length && (bytes[0] === 123 || bytes[0] === 91 || bytes[0] <= 32) && bytes[8] !== 123;
    value = text ? parseJson(new TextDecoder().decode(bytes)) : requestOf(readSafetensors(bytes.buffer));
  }
  if (Array.isArray(value) || value?.base64 !== undefined || (value?.shape && value?.data)) return { matrices: { weights: value.dtype || Array.isArray(value) ? tensorOf(value) : tensorOf(value) } };
  if (value === null || typeof value !== 'object') throw new Error(t('notRequest'));
  if (['q', 'x', 'w_q', 'w_qkv', 'k', 'v'].some((name) => name in value)) return { request: value };
  const matrices = {};
  const labels = {};
  for (const [name, part] of Object.entries(value)) {
    if (name === 'tokens' || name === 'key_tokens') labels[name] = part;
    else if (Array.isArray(part) || part?.shape) matrices[name] = part.dtype || !part.data ? tensorOf(part) : part.data.buffer ? part : tensorOf(part);
  }
  if (!Object.keys(matrices).length) throw new Error(t('notRequest'));
  return { matrices, labels };
}

/** A text area that also takes dropped and chosen files. ready(text or file) is called. */
export function intake(area, picker, ready) {
  picker.addEventListener('change', () => picker.files[0] && ready(picker.files[0]));
  area.addEventListener('dragover', (event) => {
    event.preventDefault();
    area.classList.add('over');
  });
  area.addEventListener('dragleave', () => area.classList.remove('over'));
  area.addEventListener('drop', (event) => {
    area.classList.remove('over');
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    ready(event.dataTransfer.files[0]);
  });
}
