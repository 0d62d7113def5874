// Small helpers to make elements. Text is always text, never markup.
export function el(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'dataset') Object.assign(node.dataset, value);
    else if (key === 'text') node.textContent = value;
    else if (key in node && typeof value !== 'string') node[key] = value;
    else node.setAttribute(key === 'className' ? 'class' : key, value === true ? '' : value);
  }
  node.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}
export const svg = (name, attributes = {}, ...children) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) node.setAttribute(key, value);
  node.append(...children.flat(9).filter((child) => child !== null && child !== undefined));
  return node;
};

/** A labelled control. kind: a type of input, or a list of [value, text] for a choice. */
export function control(label, kind, { value, change, ...rest }) {
  const events = { onchange: (event) => change(kind === 'checkbox' ? event.target.checked : event.target.value) };
  const input = Array.isArray(kind)
    ? el('select', { ...rest, ...events }, kind.map(([v, text]) => el('option', { value: String(v), text })))
    : el('input', { type: kind, ...rest, ...events });
  if (kind === 'checkbox') input.checked = value;
  else input.value = value;
  return el('label', { className: kind === 'checkbox' ? 'control check' : 'control' }, kind === 'checkbox' ? input : el('span', { text: label }), kind === 'checkbox' ? el('span', { text: label }) : input);
}
export const button = (text, click, properties = {}) => el('button', { type: 'button', onclick: click, text, ...properties });

/** Saves bytes or text as a file. */
export function download(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = el('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** Runs f once things have been quiet for some milliseconds. */
export function settle(f, ms) {
  let timer = 0;
  return (...rest) => {
    clearTimeout(timer);
    timer = setTimeout(() => f(...rest), ms);
  };
}

/** Marks for characters that would not be seen: a token as it is shown. */
export function visible(token) {
  if (token === '') return '∅';
  return token.replaceAll(' ', '␣').replaceAll('\n', '↵').replaceAll('\t', '⇥').replaceAll('\r', '␍')
    .replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffd]/g, (c) => `⟨${c.codePointAt(0).toString(16).padStart(4, '0')}⟩`);
}
