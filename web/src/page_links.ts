// Links out of the page: papers, the documentation, the live page.
import { make } from './dom';

/** "Su et al. 2021, arXiv 2104.09864" with a link to the paper. */
export function paperLine(paper: string): HTMLElement {
  const line = make('p', { class: 'paper' });
  const [, before, number] = /^(.*?)arXiv (\d{4}\.\d{4,5})$/.exec(paper) ?? [];
  if (before === undefined || number === undefined) line.append(paper);
  else {
    const address = `https://arxiv.org/abs/${number}`;
    line.append(before, make('a', { href: address, target: '_blank', rel: 'noopener' }, `arXiv ${number}`));
  }
  return line;
}

/** Where the documentation is, if the site that shows this page has it: data-docs of the root, "../docs/" for example. */
function docsRoot(): string {
  return document.documentElement.dataset['docs'] ?? '';
}

/** The page about an encoding, where the documentation is at hand. */
export function encodingLink(name: string): HTMLElement[] {
  if (docsRoot() === '') return [];
  return [make('p', { class: 'paper' }, make('a', { href: `${docsRoot()}encodings/${name}.html` }, `${name} in the documentation`))];
}

/** `posenc serve` says in a header that it has the live page too; other servers do not have it. */
function hasLivePage(): boolean {
  const [navigation] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[];
  return navigation?.serverTiming?.some((entry) => entry.name === 'posenc-live') ?? false;
}

export function siteLinks(): HTMLElement[] {
  const links: HTMLElement[] = [];
  if (docsRoot() !== '') links.push(make('a', { href: `${docsRoot()}README.html` }, 'Documentation'));
  if (hasLivePage()) links.push(make('a', { href: '/live/' }, 'Live runs'));
  return links;
}
