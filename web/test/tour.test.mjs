// The guided tour of the explorer, and the ways around the page without a pointer.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { DIST, launchBrowser, openPage, openView, redrawn, serveFolder } from './support.mjs';

const CHAPTERS = 8;

let browser;
let server;
let page;
let faults;
let close;

before(async () => {
  server = await serveFolder(DIST);
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  server?.close();
});
beforeEach(async () => {
  ({ page, faults, close } = await openPage(browser));
});
afterEach(async () => {
  const seen = [...faults];
  await close();
  assert.deepEqual(seen, []);
});

const text = (selector) => page.locator(selector).textContent();
const focused = () => page.evaluate(() => document.activeElement.id);

test('eight chapters, each a view of its own that draws, and back to what was there before', async () => {
  await openView(page, server.url, 'view=bias-curves&spec=kerple&heads=4&length=64');
  const outside = page.url();
  await redrawn(page, () => page.locator('#start-tour').click());
  assert.equal(await focused(), 'tour-title');
  const titles = [];
  for (let chapter = 1; chapter <= CHAPTERS; ++chapter) {
    assert.match(page.url(), new RegExp(`#tour=${chapter}$`));
    assert.equal(await text('#problem'), '', await text('#tour-title'));
    assert.equal(await text('#note'), '');
    titles.push(await text('#tour-title'));
    assert.ok((await text('#tour-attempt')).length > 20);
    await redrawn(page, () => page.locator('#tour-next').click());
  }
  assert.equal(new Set(titles).size, CHAPTERS);
  assert.match(titles[0], /^1 of 8: Why position/);
  assert.match(titles.at(-1), /^8 of 8: CoPE counts sentences/);
  assert.equal(page.url(), outside, 'Finish ends the tour');
  assert.equal(await page.locator('#tour').isVisible(), false);
  assert.equal(await page.locator('#spec-0').inputValue(), 'kerple');
  assert.equal(await page.locator('#view-length').inputValue(), '64');
  assert.equal(await focused(), 'start-tour');
});

test('the link of a chapter, and of what was tried in it', async () => {
  await openView(page, server.url, 'tour=6');
  assert.match(await text('#tour-title'), /^6 of 8: /);
  await redrawn(page, () => page.locator('#view-head').fill('3').then(() => page.locator('#view-head').blur()));
  assert.match(page.url(), /#tour=6&view=bias&.*head=3/);
  const tried = page.url().split('#')[1];
  await openView(page, server.url, tried);
  assert.match(await text('#tour-title'), /^6 of 8: /);
  assert.equal(await page.locator('#view-head').inputValue(), '3');
  await redrawn(page, () => page.locator('#reset').click());
  assert.match(page.url(), /#tour=6$/, 'a reset is the chapter as it began');
  await redrawn(page, () => page.locator('#tour-close').click());
  assert.doesNotMatch(page.url(), /tour/);
  await redrawn(page, () => page.locator('#views a[data-view="bias"]').click());
  assert.equal(await page.locator('#view-head').inputValue(), '0', 'what was tried in the tour is forgotten');
  await openView(page, server.url, 'tour=9');
  assert.equal(await page.locator('#tour').isVisible(), false, 'there is no ninth chapter');
});

test('by keys: start, next, back, end; the back button goes through chapters', async () => {
  await openView(page, server.url, 'view=decay');
  await redrawn(page, () => page.keyboard.press('g'));
  await redrawn(page, () => page.keyboard.press('n'));
  await redrawn(page, () => page.keyboard.press(']'));
  assert.match(page.url(), /#tour=3$/);
  await redrawn(page, () => page.keyboard.press('p'));
  assert.match(page.url(), /#tour=2$/);
  assert.equal(await page.locator('#tour-steps [aria-current="step"]').textContent(), '2');
  await redrawn(page, () => page.goBack());
  assert.match(page.url(), /#tour=3$/);
  await page.keyboard.press('?');
  await page.keyboard.press('Escape');
  assert.match(page.url(), /#tour=3$/, 'Escape closes the help alone');
  await redrawn(page, () => page.keyboard.press('Escape'));
  assert.match(page.url(), /#view=decay$/);
});

test('what the first and the last chapter say to try works', async () => {
  await openView(page, server.url, 'tour=1');
  await redrawn(page, () => page.locator('#add-term').selectOption('rope'));
  assert.equal(await page.locator('#spec-0').inputValue(), 'rope');
  assert.equal(await text('#problem'), '');
  await openView(page, server.url, 'tour=7');
  await redrawn(page, () => page.locator('#term-0-schedule').selectOption('linear'));
  assert.equal(await page.locator('#spec-0').inputValue(), 'rope(schedule=linear(factor=4))');
  await openView(page, server.url, 'tour=8');
  const before = await page.locator('#view-text').inputValue();
  await redrawn(page, () => page.locator('#view-text').fill(`${before} More.`));
  assert.equal(await text('#problem'), '');
});

test('the skip link leads to the figure and keeps the view', async () => {
  await openView(page, server.url, 'view=decay');
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'skip');
  await page.keyboard.press('Enter');
  assert.equal(await focused(), 'figure');
  assert.match(page.url(), /#view=decay$/);
});

test('papers are links; documentation is linked where the site says that it has it', async () => {
  await openView(page, server.url, 'view=bias&spec=alibi');
  const paper = page.locator('[data-formula="alibi"] .paper a');
  assert.equal(await paper.getAttribute('href'), 'https://arxiv.org/abs/2108.12409');
  assert.equal(await page.locator('#site-links a').count(), 0);
  await page.route('**/', async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replace('data-docs=""', 'data-docs="../docs/"');
    await route.fulfill({ response, body });
  });
  await openView(page, server.url, 'view=bias&spec=alibi');
  assert.equal(await page.locator('#site-links a').getAttribute('href'), '../docs/README.html');
  assert.equal(await page.locator('[data-formula="alibi"] a[href="../docs/encodings/alibi.html"]').count(), 1);
});

test('on a phone the controls come before the figure', async () => {
  await close();
  ({ page, faults, close } = await openPage(browser, { viewport: { width: 390, height: 844 } }));
  await openView(page, server.url, 'tour=3');
  const top = async (selector) => (await page.locator(selector).boundingBox()).y;
  assert.ok((await top('#tour')) < (await top('#specs')));
  assert.ok((await top('#specs')) < (await top('#figure')));
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 390, `${width}`);
});
