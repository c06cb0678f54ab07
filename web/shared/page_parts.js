// What widgets of these pages have in common: elements, and the page's light or dark look.

export const FONT = 'system-ui, "Segoe UI", "DejaVu Sans", "Liberation Sans", sans-serif';
const THEME_KEY = 'posenc-theme';

/** Does the page show its dark colours? data-theme on the root wins over the system's setting. */
export function pageIsDark() {
  const theme = document.documentElement.dataset.theme;
  if (theme === 'dark' || theme === 'light') return theme === 'dark';
  return matchMedia('(prefers-color-scheme: dark)').matches;
}

/**
 * Calls back whenever the look may have changed.
 * @param {() => void} listener
 * @param {AbortSignal} [signal] ends it
 */
export function onThemeChange(listener, signal) {
  const observer = new MutationObserver(listener);
  observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  signal?.addEventListener('abort', () => observer.disconnect());
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', listener, { signal });
}

/** @param {string} theme light, dark, or auto: the system's setting. All pages of this site remember it. */
export function setTheme(theme) {
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  try {
    localStorage.setItem(THEME_KEY, theme);
  } catch {
    // Storage is blocked: the choice lasts as long as the page.
  }
}
/** Sets the theme that was chosen last, and returns it. */
export function restoreTheme() {
  let theme = 'auto';
  try {
    theme = localStorage.getItem(THEME_KEY) ?? theme;
  } catch {
    // Storage is blocked.
  }
  setTheme(theme);
  return theme;
}
/** @param {Element} parent */
export function addThemeChoice(parent) {
  const label = makeElement('label', 'theme', parent, 'Theme ');
  const select = makeElement('select', '', label);
  select.id = 'theme';
  for (const [value, text] of [['auto', 'system'], ['light', 'light'], ['dark', 'dark']]) {
    makeElement('option', '', select, text).value = value;
  }
  select.value = restoreTheme();
  select.addEventListener('change', () => setTheme(select.value));
}

/** The tones of theme.css, for canvases. */
export function pageInks() {
  const style = getComputedStyle(document.documentElement);
  const color = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: color('ink'),
    soft: color('soft'),
    line: color('line'),
    paper: color('paper'),
    shade: color('shade'),
    pin: color('pin'),
  };
}
/** @typedef {ReturnType<typeof pageInks>} Inks */

/** @param {string} id of an element that the page has */
export function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} [className]
 * @param {Element | null} [parent]
 * @param {string} [text]
 * @returns {HTMLElementTagNameMap[K]}
 */
export function makeElement(tag, className, parent, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  parent?.append(element);
  return element;
}

/**
 * @param {Element} parent
 * @param {string} text
 * @param {string} label for people who hover or listen
 * @param {() => void} action
 */
export function makeButton(parent, text, label, action) {
  const button = makeElement('button', 'hm-button', parent, text);
  button.type = 'button';
  button.title = label;
  // What is read aloud contains the words that are seen.
  button.setAttribute('aria-label', /\w/.test(text) ? `${text}: ${label}` : label);
  button.addEventListener('click', action);
  return button;
}

/**
 * @param {Blob} content
 * @param {string} name
 */
export function saveFile(content, name) {
  const url = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/**
 * "Decay of rope" as a file name: "decay_of_rope".
 * @param {string[]} parts
 */
export function fileName(...parts) {
  const words = parts.join('_').toLowerCase().replace(/[^a-z0-9]+/g, '_');
  return words.replace(/^_+|_+$/g, '').slice(0, 80);
}
