// What is on screen, to take away: code that asks for it again, links, pictures, files.
import { button, download, el } from './dom.js';
import { requestText } from './service.js';
import { t } from './text.js';

const LONGEST_SNIPPET = 100000;
const LONGEST_LINK = 8000;

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
// escapes of JSON strings are those of Python and JavaScript too; a lone half of a pair cannot come: the service refuses it
const quoted = (text) => JSON.stringify(text).replace(/[\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16)}`);

export function snippet(language, path, text, origin = location.origin) {
  const url = origin + path;
  const file = text.length > LONGEST_SNIPPET;
  if (language === 'curl') {
    return `curl -s ${url} -H 'Content-Type: application/json' ${file ? '--data-binary @request.json' : `--data-binary ${shell(text)}`}\n`;
  }
  if (language === 'python') {
    return ['import json, urllib.request', file ? 'body = open("request.json", "rb").read()' : `body = ${quoted(text)}.encode()`,
      `request = urllib.request.Request("${url}", body, {"Content-Type": "application/json"})`,
      'text = urllib.request.urlopen(request).read().decode()', 'reply = json.loads(text)', 'print(text, end="")', ''].join('\n');
  }
  return [...(file ? ["import { readFileSync } from 'node:fs';", "const body = readFileSync('request.json');"] : [`const body = ${quoted(text)};`]),
    `const response = await fetch("${url}", { method: "POST", headers: { "Content-Type": "application/json" }, body });`,
    'const text = await response.text();', 'const reply = JSON.parse(text);', 'console.log(text);', ''].join('\n');
}

let linkOf = () => location.href;
export const setLink = (f) => (linkOf = f);

async function copy(text, note, area) {
  try {
    await navigator.clipboard.writeText(text);
    note.textContent = t('copied');
    area.hidden = true;
  } catch {
    note.textContent = t('copyByHand');
    area.hidden = false;
    area.value = text;
    area.select();
  }
}

/** Buttons for code and link; get gives {path, request}. */
export function shareBar(root, get) {
  const draw = () => {
    const note = el('span', { className: 'hint', role: 'status' });
    const area = el('textarea', { hidden: true, readOnly: true, rows: 4, 'aria-label': t('copyByHand') });
    const code = (language) => async () => {
      const { path, request } = get();
      const text = requestText(request);
      if (text.length > LONGEST_SNIPPET) download('request.json', text, 'application/json');
      await copy(snippet(language, path, text), note, area);
      if (text.length > LONGEST_SNIPPET) note.textContent = t('copiedWithFile');
    };
    const link = async () => {
      const url = linkOf();
      if (url.length <= LONGEST_LINK) return copy(url, note, area);
      const { request } = get();
      download('request.json', requestText(request), 'application/json');
      note.textContent = t('linkTooLong', { n: url.length });
    };
    root.replaceChildren(el('span', { className: 'label', text: t('copyAs') }), button('curl', code('curl')), button('Python', code('python')), button('JavaScript', code('javascript')), button(t('copyLink'), link), note, area);
  };
  root.redraw = draw;
  draw();
}

/** Menu of downloads: [[text, function], …]. */
export function downloads(root, list) {
  root.replaceChildren(el('span', { className: 'label', text: t('download') }), ...list.map(([text, f]) => button(text, f)));
}
