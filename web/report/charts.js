// Charts: names that hide or single out a series in all of them, and a readout beside the pointer.
import { makeElement } from '../shared/page_parts.js';

const REACH = 24; // pixels from the pointer to the point that it reads

/** @param {string} name */
function seriesParts(name) {
  return [...document.querySelectorAll('.chart [data-name]')].filter(
    (part) => part instanceof SVGElement && part.dataset.name === name,
  );
}

/** The words beside points have no data-name; they are known by what they say. */
function nameNotes() {
  for (const chart of document.querySelectorAll('.chart')) {
    const names = new Set(
      [...chart.querySelectorAll('.pe-series')].map((g) => g.getAttribute('data-name') ?? ''),
    );
    for (const text of chart.querySelectorAll('.pe-panel > text.pe-soft')) {
      const name = text.textContent ?? '';
      if (name !== '' && names.has(name)) text.setAttribute('data-name', name);
    }
  }
}

/** @param {string} name */
function toggleSeries(name) {
  const parts = seriesParts(name);
  const hide = !parts.some((part) => part.classList.contains('off'));
  for (const part of parts) {
    part.classList.toggle('off', hide);
    if (part.classList.contains('pe-legend')) part.setAttribute('aria-pressed', String(!hide));
  }
}

/** @param {string | null} name of the series to single out, or nothing */
function singleOut(name) {
  document.body.classList.toggle('singled', name !== null);
  for (const part of document.querySelectorAll('.chart .one')) part.classList.remove('one');
  if (name !== null) for (const part of seriesParts(name)) part.classList.add('one');
}

/** @param {SVGElement} item */
function wireLegend(item) {
  const name = item.dataset.name ?? '';
  // A picture hides its parts from screen readers; this one now has buttons.
  item.closest('svg')?.setAttribute('role', 'group');
  item.setAttribute('role', 'button');
  item.setAttribute('tabindex', '0');
  item.setAttribute('aria-pressed', 'true');
  item.setAttribute('aria-label', `${name}: show or hide in all charts`);
  item.addEventListener('click', () => toggleSeries(name));
  item.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    toggleSeries(name);
  });
  item.addEventListener('pointerenter', () => singleOut(name));
  item.addEventListener('pointerleave', () => singleOut(null));
  item.addEventListener('focus', () => singleOut(name));
  item.addEventListener('blur', () => singleOut(null));
}

/**
 * Words of points move out of <title>, which browsers would show a second time.
 * @param {Element} chart
 */
function takePoints(chart) {
  for (const title of chart.querySelectorAll('.pe-series title')) {
    const point = title.parentElement;
    if (!point) continue;
    point.setAttribute('data-tip', title.textContent ?? '');
    title.remove();
  }
  return [...chart.querySelectorAll('[data-tip]')];
}

/**
 * @param {Element[]} points
 * @param {PointerEvent} event
 * @returns {Element | null}
 */
function nearestPoint(points, event) {
  let best = null;
  let least = REACH;
  for (const point of points) {
    if (point.closest('.off')) continue;
    const box = point.getBoundingClientRect();
    const x = box.left + box.width / 2 - event.clientX;
    const y = box.top + box.height / 2 - event.clientY;
    const distance = Math.hypot(x, y);
    if (distance < least) {
      least = distance;
      best = point;
    }
  }
  return best;
}

/**
 * @param {Element} chart
 * @param {HTMLElement} tip
 */
function wireReadout(chart, tip) {
  const points = takePoints(chart);
  chart.addEventListener('pointermove', (e) => {
    const event = /** @type {PointerEvent} */ (e);
    const point = nearestPoint(points, event);
    tip.hidden = point === null;
    if (!point) return;
    tip.textContent = point.getAttribute('data-tip');
    const room = document.documentElement.clientWidth - tip.offsetWidth - 12;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, room))}px`;
    tip.style.top = `${event.clientY + 16}px`;
  });
  chart.addEventListener('pointerleave', () => (tip.hidden = true));
}

export function setUpCharts() {
  nameNotes();
  for (const item of document.querySelectorAll('.chart .pe-legend')) {
    if (item instanceof SVGElement) wireLegend(item);
  }
  const tip = makeElement('div', 'tip', document.body);
  tip.hidden = true;
  for (const chart of document.querySelectorAll('.chart')) wireReadout(chart, tip);
}
