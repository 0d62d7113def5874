// The frame of the page: views, language, theme, and the link that holds the state of all of them.
import { settle } from './dom.js';
import { requestText } from './service.js';
import { setLink } from './share.js';
import { language, setLanguage, t, translate } from './text.js';
import * as walk from './walk.js';

const loaders = { walk: async () => walk, explore: () => import('./explore.js'), compare: () => import('./compare.js'), check: () => import('./check.js'), cost: () => import('./cost.js') };
const NAMES = Object.keys(loaders);
const views = {};
const page = { view: 'walk', lang: '', theme: '' };

/** Text of the fragment: the view, then what differs from the defaults. */
function fragment() {
  const params = new URLSearchParams();
  if (page.lang) params.set('lang', page.lang);
  if (page.theme) params.set('theme', page.theme);
  const view = views[page.view];
  if (view) for (const [name, value] of Object.entries(view.state)) if (value !== view.defaults[name]) params.set(name, value);
  const text = params.toString();
  return `#${page.view}${text ? `?${text}` : ''}`;
}
function read(hash) {
  const [name, text = ''] = hash.replace(/^#/, '').split(/\?(.*)/s);
  return { view: NAMES.includes(name) ? name : 'walk', params: new URLSearchParams(text) };
}
function put(view, params) {
  for (const [name, fallback] of Object.entries(view.defaults)) {
    const value = params.get(name);
    if (value === null) view.state[name] = fallback;
    else view.state[name] = typeof fallback === 'number' ? Number(value) : typeof fallback === 'boolean' ? value === 'true' : value;
  }
}

let written = '';
function write() {
  const next = fragment();
  written = next.length > 100000 ? `#${page.view}` : next;
  history.replaceState(null, '', written);
}
const later = settle(write, 150);

function look() {
  const system = navigator.language?.startsWith('zh') ? 'zh' : 'en';
  setLanguage(page.lang || system);
  if (page.theme) document.documentElement.dataset.theme = page.theme;
  else delete document.documentElement.dataset.theme;
  translate(document);
  document.title = t('pageTitle');
  for (const choice of document.querySelectorAll('[data-lang]')) choice.setAttribute('aria-pressed', String(choice.dataset.lang === language));
  const dark = page.theme ? page.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  document.querySelector('#theme').textContent = t(dark ? 'toLight' : 'toDark');
}

/** A view, initialised once. */
async function loaded(name) {
  if (!views[name]) {
    const view = await loaders[name]();
    if (!views[name]) {
      views[name] = view;
      view.init(document.querySelector(`#${name}`), later, handOver);
    }
  }
  return views[name];
}
async function open(name, params) {
  page.view = name;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.dataset.view === name) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  for (const other of NAMES) document.querySelector(`#${other}`).hidden = other !== name;
  const fresh = !views[name];
  const view = await loaded(name);
  if (page.view !== name) return;
  if (params) put(view, params);
  later();
  await (params || fresh ? view.load() : view.enter());
}
/** Opens a view with a request of another; false where that view cannot show it. */
async function handOver(name, request) {
  const view = await loaded(name);
  if (!view.take(JSON.parse(requestText(request)))) return false;
  await open(name, null);
  scrollTo(0, 0);
  return true;
}

function start() {
  const { view, params } = read(location.hash);
  page.lang = params.get('lang') ?? '';
  page.theme = params.get('theme') ?? '';
  look();
  open(view, params);
}
addEventListener('hashchange', () => {
  if (location.hash === written) return;
  const { view, params } = read(location.hash);
  if (params.get('lang')) page.lang = params.get('lang');
  if (params.get('theme')) page.theme = params.get('theme');
  look();
  open(view, [...params.keys()].length || !views[view] ? params : null);
});
for (const link of document.querySelectorAll('nav a')) {
  link.addEventListener('click', (event) => {
    if (event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    open(link.dataset.view, null);
  });
}
for (const choice of document.querySelectorAll('[data-lang]')) {
  choice.addEventListener('click', () => {
    page.lang = choice.dataset.lang;
    look();
    views[page.view]?.enter();
    later();
  });
}
document.querySelector('#theme').addEventListener('click', () => {
  const dark = page.theme ? page.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  page.theme = dark ? 'light' : 'dark';
  look();
  views[page.view]?.enter();
  later();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  look();
  views[page.view]?.enter();
});
setLink(() => location.origin + location.pathname + fragment());
start();
