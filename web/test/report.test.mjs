// The report, as a reader opens it: a file from disk, made from two tiny runs.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launchBrowser, openPage, POSENC, ROOT, screenshot } from './support.mjs';

let browser;
let folder;
let file;

function posenc(...words) {
  return execFileSync(POSENC, words, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'posenc-report-'));
  for (const encoding of ['rope', 'rope + cope']) {
    const run = join(folder, encoding.replaceAll(/\W+/g, '_'));
    const tiny = ['train.steps=20', 'train.log_every=5', 'eval.samples=16'];
    posenc('train', 'configs/demo.yaml', '--out', run, ...[`model.encoding=${encoding}`, ...tiny].flatMap((s) => ['--set', s]));
    posenc('attention', run, '--sample', '0', '-o', join(folder, 'attention.svg'));
  }
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
