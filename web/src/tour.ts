// The panel of the guided tour: a chapter's words, and buttons to the next one.
import { byId, make } from './dom';
import { CHAPTERS } from './tour_chapters';

/** The chapter that a link asks for, from 1; 0 where it asks for none. */
export function chapterOfLink(hash: string): number {
  const number = Number(new URLSearchParams(hash.replace(/^#/, '')).get('tour'));
  return Number.isInteger(number) && number >= 1 && number <= CHAPTERS.length ? number : 0;
}

/** The fragment of the view that a chapter begins with. */
export function linkOfChapter(chapter: number): string {
  return CHAPTERS[chapter - 1]?.link ?? '';
}

export class TourPanel {
  private readonly steps: HTMLAnchorElement[];

  constructor(private readonly goTo: (chapter: number) => void) {
    this.steps = CHAPTERS.map(({ title }, i) => {
      const label = `chapter ${i + 1}: ${title}`;
      const link = make('a', { href: `#tour=${i + 1}`, title: label, 'aria-label': label }, String(i + 1));
      link.addEventListener('click', (event) => {
        event.preventDefault();
        this.goTo(i + 1);
      });
      return link;
    });
    byId('tour-steps').append(...this.steps.map((link) => make('li', {}, link)));
  }

  show(chapter: number): void {
    byId('tour').hidden = chapter === 0;
    document.body.classList.toggle('touring', chapter !== 0);
    byId('start-tour').setAttribute('aria-pressed', String(chapter !== 0));
    const words = CHAPTERS[chapter - 1];
    if (words === undefined) return;
    byId('tour-title').textContent = `${chapter} of ${CHAPTERS.length}: ${words.title}`;
    byId('tour-text').textContent = words.text;
    byId('tour-attempt').textContent = words.attempt;
    byId<HTMLButtonElement>('tour-back').disabled = chapter === 1;
    byId('tour-next').textContent = chapter === CHAPTERS.length ? 'Finish' : 'Next';
    this.steps.forEach((link, i) => {
      if (i + 1 === chapter) link.setAttribute('aria-current', 'step');
      else link.removeAttribute('aria-current');
    });
  }
  focus(): void {
    byId('tour-title').focus();
  }
}
