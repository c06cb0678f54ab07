// What widgets of these pages have in common: elements, and the page's light or dark look.

/** Does the page show its dark colours? data-theme on the root wins over the system's setting. */
export function pageIsDark() {
  const theme = document.documentElement.dataset.theme;
  if (theme === 'dark' || theme === 'light') return theme === 'dark';
  return matchMedia('(prefers-color-scheme: dark)').matches;
}

/**
 * Calls back whenever the look may have changed.
 * @param {() => void} listener
 * @param {AbortSignal} signal ends it
 */
export function onThemeChange(listener, signal) {
  const observer = new MutationObserver(listener);
  observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  signal.addEventListener('abort', () => observer.disconnect());
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', listener, { signal });
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} className
 * @param {Element} [parent]
 * @returns {HTMLElementTagNameMap[K]}
 */
export function makeElement(tag, className, parent) {
  const element = document.createElement(tag);
  if (className) element.className = className;
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
  const button = makeElement('button', 'hm-button', parent);
  button.type = 'button';
  button.textContent = text;
  button.title = label;
  button.setAttribute('aria-label', label);
  button.addEventListener('click', action);
  return button;
}
