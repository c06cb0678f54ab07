// A button that copies a text.
import { makeElement } from '../shared/page_parts.js';

/**
 * Where the clipboard is closed to the page, the text is selected instead.
 * @param {Element} code
 * @param {HTMLButtonElement} button
 */
async function copyText(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent ?? '');
    button.textContent = 'copied';
  } catch {
    getSelection()?.selectAllChildren(code);
    button.textContent = 'selected';
  }
  setTimeout(() => (button.textContent = 'copy'), 1500);
}

/** @param {Element} code in a <pre> */
export function addCopyButton(code) {
  const button = makeElement('button', 'copy', code.parentElement, 'copy');
  button.type = 'button';
  button.addEventListener('click', () => void copyText(code, button));
}
