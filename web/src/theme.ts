// Light or dark: the system's wish until the reader says otherwise.

export type Theme = 'light' | 'dark';
const KEY = 'posenc-theme';

export function currentTheme(): Theme {
  const chosen = document.documentElement.dataset['theme'];
  if (chosen === 'light' || chosen === 'dark') return chosen;
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

export function restoreTheme(): void {
  const kept = localStorage.getItem(KEY);
  if (kept === 'light' || kept === 'dark') document.documentElement.dataset['theme'] = kept;
}

export function toggleTheme(): void {
  const next = currentTheme() === 'dark' ? 'light' : 'dark';
  document.documentElement.dataset['theme'] = next;
  localStorage.setItem(KEY, next);
}

/** Calls `act` when the colours change, by the reader or by the system. */
export function onThemeChange(act: () => void): void {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', act);
  new MutationObserver(act).observe(document.documentElement, { attributeFilter: ['data-theme'] });
}
