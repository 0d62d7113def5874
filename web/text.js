// The page's words in two languages. Both tables have the same keys.
import en from './en.js';
import zh from './zh.js';

const tables = { en, zh };
let words = en;
export let language = 'en';

export function setLanguage(name) {
  language = tables[name] ? name : 'en';
  words = tables[language];
  document.documentElement.lang = language === 'zh' ? 'zh-Hans' : 'en';
}
/** The text of a key, with {names} filled in. */
export function t(key, values = {}) {
  const text = words[key] ?? en[key];
  if (text === undefined) throw new Error(`no text for ${key}`);
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? '');
}
/** Fills elements with data-t; data-t-label names the key of an aria-label. */
export function translate(root) {
  for (const node of root.querySelectorAll('[data-t]')) node.textContent = t(node.dataset.t);
  for (const node of root.querySelectorAll('[data-t-label]')) node.setAttribute('aria-label', t(node.dataset.tLabel));
}
