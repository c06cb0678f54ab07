// The explorer in a real browser.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, beforeEach, afterEach, test } from 'node:test';
import { commandCsv, csvDifference, csvRows, DIST, launchBrowser, openPage, openView, plotCsv, redrawn, screenshot, serveFolder, timeOfMap } from './support.mjs';

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
// Whatever a test does: no complaint in the console, nothing asked of the network.
afterEach(async () => {
  const seen = [...faults];
  await close();
  assert.deepEqual(seen, []);
});

const views = () => page.locator('#views a');
const text = (selector) => page.locator(selector).textContent();
const setRange = (selector, fraction) =>
  page.locator(selector).evaluate((slider, f) => {
    slider.value = String(Math.round(Number(slider.min) + f * (Number(slider.max) - Number(slider.min))));
    slider.dispatchEvent(new Event('input', { bubbles: true }));
    slider.dispatchEvent(new Event('change', { bubbles: true }));
  }, fraction);

async function downloaded(act) {
  const waiting = page.waitForEvent('download');
  await act();
  const file = await waiting;
  return { name: file.suggestedFilename(), content: await readFile(await file.path()) };
}
// The numbers of every panel, as the page hands them out.
async function pageCsv() {
  const count = await page.locator('.panel').count();
  const lines = [];
  for (let i = 0; i < count; ++i) {
    const { content } = await downloaded(() => page.locator(`[data-panel="${i}"] button:has-text("CSV")`).click());
    const [head, ...rest] = content.toString().trimEnd().split('\n');
    if (i === 0) lines.push(head);
    lines.push(...rest);
  }
  return `${lines.join('\n')}\n`;
}

test('every view opens and draws panels', async () => {
  await openView(page, server.url);
  const count = await views().count();
  assert.ok(count >= 14, `${count} views`);
  for (let i = 0; i < count; ++i) {
    if (i > 0) await redrawn(page, () => views().nth(i).click());
    assert.equal(await text('#problem'), '', await text('#figure-title'));
    assert.ok((await page.locator('.panel').count()) > 0);
    assert.notEqual(await text('#caption'), '');
  }
});

test('a slider changes the numbers, and they are the library’s', async () => {
  await openView(page, server.url, 'view=decay&spec=rope&length=200');
  const before = await pageCsv();
  await redrawn(page, () => setRange('#term-0-theta-slider', 0.9));
  const command = await text('#command');
  assert.match(command, /theta=\d/);
  const moved = await pageCsv();
  assert.notEqual(moved, before);
  assert.equal(csvDifference(moved, commandCsv(command)), '');
  assert.equal(await page.locator('#spec-0').inputValue(), command.match(/'(rope[^']*)'/)[1]);
});

test('a slider of the view changes the numbers too', async () => {
  await openView(page, server.url, 'view=bias&spec=alibi&length=16');
  await redrawn(page, () => setRange('#view-head-slider', 0.1));
  assert.match(page.url(), /head=3/);
  assert.equal(csvDifference(await pageCsv(), plotCsv(['bias', '--encoding', 'alibi', '--length', '16', '--head', '3'])), '');
});

test('terms compose, and a schedule brings its fields', async () => {
  await openView(page, server.url, 'view=scores&spec=rope');
  await redrawn(page, () => page.locator('#add-term').selectOption('alibi'));
  assert.equal(await page.locator('#spec-0').inputValue(), 'rope + alibi');
  await redrawn(page, () => page.locator('#term-0-schedule').selectOption('linear'));
  assert.equal(await page.locator('#spec-0').inputValue(), 'rope(schedule=linear(factor=4)) + alibi');
  await redrawn(page, async () => {
    await page.locator('#term-0-schedule-factor').fill('8');
    await page.locator('#term-0-schedule-factor').blur();
  });
  const spec = 'rope(schedule=linear(factor=8)) + alibi';
  assert.equal(await page.locator('#spec-0').inputValue(), spec);
  assert.equal(csvDifference(await pageCsv(), plotCsv(['scores', '--encoding', spec])), '');
  assert.equal(await page.locator('[data-formula="linear"] .katex').count(), 1);
  assert.equal(await page.locator('[data-formula="alibi"] .katex').count(), 1);
});

test('every schedule and every kind of axes can be chosen and draws', async () => {
  for (const chooser of ['#term-0-schedule', '#term-0-axes']) {
    await openView(page, server.url, 'view=wavelengths&spec=rope');
    const names = await page.locator(`${chooser} option`).allTextContents();
    for (const name of names.slice(1)) {
      await page.locator('.term > .rare').last().locator('summary').first().click();
      await redrawn(page, () => page.locator(chooser).selectOption(name));
      assert.equal(await text('#problem'), '', name);
      assert.equal(await text('#spec-error-0'), '', name);
    }
  }
});

test('your own sentences and gates', async () => {
  await openView(page, server.url, 'view=cope');
  await redrawn(page, () => page.locator('#view-text').fill('one ; two ; three .'));
  await redrawn(page, () => page.locator('#view-gate_words').fill(';'));
  const options = ['cope', '--text', 'one ; two ; three .', '--gate-words', ';'];
  assert.equal(csvDifference(await pageCsv(), plotCsv(options)), '');
});

test('a wrong spec shows the library’s words, and a right one recovers', async () => {
  await openView(page, server.url, 'view=bias&spec=alibi');
  const before = await pageCsv();
  await page.locator('#spec-0').fill('alibi(bias_max=-3)');
  await page.locator('#spec-error-0:not(:empty)').waitFor();
  assert.equal(await text('#spec-error-0'), '[alibi] bias_max must be in (0, 64] but got -3 (line 1, column 16)');
  assert.equal(await pageCsv(), before);
  await redrawn(page, () => page.locator('#spec-0').fill('alibi(bias_max=4)'));
  assert.equal(await text('#spec-error-0'), '');
  assert.notEqual(await pageCsv(), before);
});

test('a spec that a view cannot show says so and offers the example', async () => {
  await openView(page, server.url, 'view=clocks&spec=alibi');
  assert.match(await text('#problem'), /alibi/);
  await redrawn(page, () => page.locator('#problem button').click());
  assert.equal(await text('#problem'), '');
});

test('the link holds the state; back and forward walk through it', async () => {
  await openView(page, server.url, 'view=decay');
  await redrawn(page, () => setRange('#view-length-slider', 0.5));
  const withLength = page.url();
  await redrawn(page, () => page.locator('#views a[data-view="bias"]').click());
  await redrawn(page, () => page.goBack());
  assert.equal(page.url(), withLength);
  const length = await page.locator('#view-length').inputValue();
  assert.match(withLength, new RegExp(`length=${length}(&|$)`));
  await redrawn(page, () => page.goForward());
  assert.match(page.url(), /view=bias/);

  const link = `${server.url}#view=bias-curves&spec=kerple&spec=rope+%2B+alibi&heads=4&length=64`;
  await openView(page, server.url, link.split('#')[1]);
  assert.equal(await page.locator('#spec-1').inputValue(), 'rope + alibi');
  assert.equal(await page.locator('#view-heads').inputValue(), '4');
  await page.locator('#share').click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), page.url());
});

test('keys: views, spec, theme, help, play', async () => {
  await openView(page, server.url, 'view=clocks');
  await redrawn(page, () => page.keyboard.press(']'));
  assert.match(page.url(), /view=inner-product/);
  await redrawn(page, () => page.keyboard.press('['));
  await page.keyboard.press('?');
  assert.equal(await page.locator('#help-dialog').evaluate((d) => d.open), true);
  await page.keyboard.press('Escape');
  await redrawn(page, () => page.keyboard.press('t'));
  assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
  await redrawn(page, () => page.keyboard.press(' '));
  await redrawn(page, () => page.waitForTimeout(100));
  await page.keyboard.press(' ');
  assert.ok(Number(await text('#position')) > 12);
  await page.keyboard.press('e');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'spec-0');
});

test('the clocks show the angles of the position', async () => {
  await openView(page, server.url, 'view=clocks');
  await redrawn(page, () => setRange('#position-slider', 0.25));
  assert.equal(await text('#position'), '128');
  const rows = csvRows(await pageCsv()).slice(1);
  const spoken = await page.locator('.panel-clocks canvas').getAttribute('aria-label');
  assert.ok(spoken.includes(`${Number(rows[0][5]).toFixed(3)} rad`));
  assert.equal(csvDifference(await pageCsv(), plotCsv(['clocks', '--positions', '128'])), '');
});

test('downloads: numbers and a picture', async () => {
  await openView(page, server.url, 'view=decay');
  const csv = await downloaded(() => page.locator('[data-panel="0"] button:has-text("CSV")').click());
  assert.match(csv.name, /^posenc_decay_.*\.csv$/);
  assert.match(csv.content.toString(), /^panel,kind,name,x,y,value,low,high\n/);
  const png = await downloaded(() => page.locator('[data-panel="0"] button:has-text("PNG")').click());
  assert.match(png.name, /\.png$/);
  assert.equal(png.content.subarray(1, 4).toString(), 'PNG');
  assert.ok(png.content.readUInt32BE(16) > 300, 'width');
  await page.locator('[data-panel="0"] button:has-text("Numbers")').click();
  await page.locator('[data-panel="0"] .panel-table tbody tr').first().waitFor();
  const cells = await page.locator('[data-panel="0"] .panel-table tbody tr').first().locator('td').allTextContents();
  assert.equal(cells[1], csvRows(csv.content.toString())[1][3]);
});

test('a cell of a map is read and pinned', async () => {
  await openView(page, server.url, 'view=bias&spec=alibi&length=16');
  const map = page.locator('[data-panel="0"] .hm-over');
  await map.focus();
  await page.keyboard.press('ArrowUp');
  const readout = await text('[data-panel="0"] .hm-readout');
  await page.keyboard.press('Enter');
  const pin = await text('[data-panel="0"] .hm-pin-button');
  const [, query, key, value] = pin.match(/i\D*(\d+)\D.*?j\D*(\d+)\D*?: (\S+)/) ?? [];
  assert.ok(readout.includes(`: ${value}`), `${readout} / ${pin}`);
  const row = csvRows(plotCsv(['bias', '--encoding', 'alibi', '--length', '16'])).find((r) => r[1] === 'map' && r[3] === key && r[4] === query);
  assert.equal(value, row[5] === '' ? 'masked' : String(Number(Number(row[5]).toPrecision(4))));
});

// How fast is a matter of `make bench-web`.
test('a map of 2048 x 2048 is drawn, and the page says how long that took', async (context) => {
  const milliseconds = await timeOfMap(page, server.url, 2048);
  assert.equal(await text('#problem'), '');
  assert.match(await text('#command'), /2048/);
  assert.ok(milliseconds > 0, `${milliseconds}`);
  context.diagnostic(`milliseconds from the wish to the painted map: ${milliseconds}`);
});

for (const theme of ['light', 'dark']) {
  test(`pictures of the page, ${theme}`, async () => {
    await close();
    ({ page, faults, close } = await openPage(browser, { colorScheme: theme }));
    for (const view of ['clocks', 'decay', 'bias', 'scores', 'cope', 'wavelengths', 'pca']) {
      await openView(page, server.url, `view=${view}`);
      await screenshot(page, `explorer_${view}_${theme}`);
    }
    const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const [red] = paper.match(/\d+/g).map(Number);
    assert.ok(theme === 'light' ? red > 200 : red < 60, paper);
  });
}

test('a narrow screen has no sideways scrolling', async () => {
  await close();
  ({ page, faults, close } = await openPage(browser, { viewport: { width: 390, height: 800 } }));
  for (const view of ['clocks', 'decay', 'bias', 'scores', 'pca']) {
    await openView(page, server.url, `view=${view}`);
    const [content, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    assert.ok(content <= screen, `${view}: ${content} > ${screen}`);
  }
  await screenshot(page, 'explorer_narrow');
});
