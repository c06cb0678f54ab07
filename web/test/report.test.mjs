// The report, as a reader opens it: a file from disk, made from two tiny runs.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { csvRows, launchBrowser, openPage, posenc, screenshot, tinyRun } from './support.mjs';

let browser;
let folder;
let file;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'posenc-report-'));
  for (const encoding of ['rope', 'rope + cope']) tinyRun(folder, encoding);
  file = join(folder, 'report.html');
  posenc('report', folder, '-o', file);
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function openReport(options) {
  const opened = await openPage(browser, options);
  await opened.page.goto(`file://${file}`);
  await opened.page.evaluate(() => window.posencReport.ready);
  return opened;
}

test('it opens from disk with its tables, charts and commands, and asks for nothing', async () => {
  assert.ok(statSync(file).size < 10e6);
  const { page, faults, close } = await openReport();
  assert.ok((await page.locator('table').count()) > 0);
  assert.ok((await page.locator('figure.chart svg').count()) > 0);
  assert.match(await page.locator('pre.command').first().textContent(), /posenc train/);
  assert.ok((await page.locator('td[data-value]').count()) > 0);
  await close();
  assert.deepEqual(faults, []);
});

test('attention maps are painted; a cell is pinned and unpinned', async () => {
  const { page, faults, close } = await openReport();
  const maps = page.locator('#attention-view .hm-over');
  assert.ok((await maps.count()) >= 2);
  await maps.first().scrollIntoViewIfNeeded();
  const box = await maps.first().boundingBox();
  await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
  const pin = page.locator('#attention-view .hm-pin-button').first();
  await pin.waitFor();
  assert.match(await pin.textContent(), /: \S+/);
  await pin.click();
  assert.equal(await page.locator('#attention-view .hm-pin-button').count(), 0);
  const times = await page.evaluate(() => window.posencReport.paintMilliseconds());
  assert.ok(times.length > 0 && Math.max(...times) < 1000, times.join(', '));
  await close();
  assert.deepEqual(faults, []);
});

for (const theme of ['light', 'dark']) {
  test(`a picture of it, ${theme}`, async () => {
    const { page, faults, close } = await openReport({ colorScheme: theme });
    await screenshot(page, `report_${theme}`);
    const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const [red] = paper.match(/\d+/g).map(Number);
    assert.ok(theme === 'light' ? red > 200 : red < 80, paper);
    await close();
    assert.deepEqual(faults, []);
  });
}

test('a table as LaTeX and as CSV: shown, copied, saved', async () => {
  const { page, faults, close } = await openReport();
  const latex = page.locator('.table-tools button:has-text("LaTeX")').first();
  await latex.click();
  const shown = page.locator('.table-form pre code').first();
  const text = await shown.textContent();
  assert.match(text, /\\begin\{tabular\}\{lr+\}\n {4}\\toprule\n {4}encoding & runs & in domain/);
  assert.ok(text.includes('\\texttt{rope + cope} & 1 &'));
  await page.locator('.table-form .copy').first().click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), text);
  const file = page.waitForEvent('download');
  await page.locator('.table-form .tool').first().click();
  assert.equal((await file).suggestedFilename(), 'posenc_selective_copy_overview.tex');
  await page.locator('.table-tools button:has-text("CSV")').first().click();
  assert.equal(await latex.getAttribute('aria-expanded'), 'false');
  const rows = csvRows(await shown.textContent());
  assert.deepEqual(rows.map((row) => row[0]), ['encoding', 'rope', 'rope + cope']);
  const speed = rows[1][rows[0].indexOf('tokens/s')];
  assert.match(speed, /^\d+\.\d{4,}$/, 'every digit');
  assert.ok(posenc('compare', folder, '--csv').includes(`,${speed},`));
  await page.locator('.table-tools button:has-text("CSV")').first().click();
  assert.equal(await page.locator('.table-form pre').count(), 0);
  await close();
  assert.deepEqual(faults, []);
});

test('on a phone the names stay in sight while a table is scrolled, and the page itself does not scroll sideways', async () => {
  const { page, faults, close } = await openReport({ viewport: { width: 390, height: 844 } });
  const frame = page.locator('.scroll').first();
  const [wide, room] = await frame.evaluate((element) => [element.scrollWidth, element.clientWidth]);
  assert.ok(wide > room, 'the table is wider than the screen');
  const name = frame.locator('tbody th').first();
  const left = (await name.boundingBox()).x;
  await frame.evaluate((element) => (element.scrollLeft = 200));
  assert.equal((await name.boundingBox()).x, left);
  const [content, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert.ok(content <= screen, `${content} > ${screen}`);
  await screenshot(page, 'report_narrow');
  await close();
  assert.deepEqual(faults, []);
});
