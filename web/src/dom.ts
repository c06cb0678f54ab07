// Elements in one line each.

type Attributes = Record<string, string | number | boolean | undefined>;

/** An element with attributes; `class`, `text` and properties such as `checked` go by their names. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children);
  return element;
}

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no element #${id}`);
  return element as T;
}

export function button(text: string, title: string, act: () => void, className = 'button'): HTMLButtonElement {
  const element = make('button', { type: 'button', class: className, title }, text);
  element.addEventListener('click', act);
  return element;
}

/** Calls `act` once things have been quiet for a while. */
export function debounce(milliseconds: number, act: () => void): () => void {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = window.setTimeout(act, milliseconds);
  };
}
