// The live page of `posenc serve`, while a training runs below its folder.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Curves, duration, shortCount, smoothed } from '../live/runs.js';
import { addressOf, launchBrowser, openPage, POSENC, ROOT, screenshot } from './support.mjs';

let browser;
let folder;
let server;
let training;
let url;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'posenc-live-'));
  const settings = ['train.steps=150', 'train.log_every=5', 'eval.samples=16', 'train.eval_every=50',
    'train.eval_samples=16', 'train.eval_conditions=[{axis: sparse}]'];
  const words = ['train', 'configs/demo.yaml', '--out', join(folder, 'mine'), ...settings.flatMap((s) => ['--set', s])];
  training = spawn(POSENC, words, { cwd: ROOT, stdio: 'ignore' });
  server = spawn(POSENC, ['serve', folder, '--port', '0']);
  url = await addressOf(server);
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  training?.kill('SIGKILL');
  server?.kill('SIGINT');
  rmSync(folder, { recursive: true, force: true });
});

async function openLive(options) {
  const opened = await openPage(browser, options);
  await opened.page.goto(`${url}live/`);
  await opened.page.locator('#runs .run').first().waitFor({ timeout: 120000 });
  return opened;
}

test('a run appears, its curve grows, it finishes, and its attention is computed on request', async () => {
  const { page, faults, close } = await openLive();
  await page.locator('#runs .badge.finished').waitFor({ timeout: 240000 });
  await page.locator('#runs .run').first().locator('.name').click();
  await page.locator('#results table').waitFor();
  assert.match(await page.locator('#config').textContent(), /selective_copy/);
  await page.locator('#attention-part summary').click();
  await page.locator('#sample').fill('1');
  await page.locator('#attention-form button').click();
  const map = page.locator('#attention .hm-over').first();
  await map.waitFor({ timeout: 120000 });
  await map.focus();
  await page.keyboard.press('ArrowDown');
  assert.match(await page.locator('#attention .hm-readout').textContent(), /^query \d+ ‘.+’.*, key \d+ ‘.+’: \S+/);
  await page.locator('#attention .thumbnail[data-layer="1"][data-head="1"]').click();
  await page.locator('#attention .hm-over[aria-label*="layer 1, head 1"]').waitFor();
  assert.match(await page.locator('#records').inputValue(), /sample1/);
  await screenshot(page, 'live_light');
  await close();
  assert.deepEqual(faults, []);
});

test('a chart is read with the mouse and with the keys, by steps, tokens or seconds', async () => {
  const { page, faults, close } = await openLive();
  const stage = page.locator('#plot-loss .lc-stage');
  const tip = page.locator('#plot-loss .lc-tip');
  await page.locator('#plot-loss canvas').waitFor();
  assert.match(await stage.getAttribute('aria-label'), /^Training loss: mine \d.*Arrow keys/);
  await stage.focus();
  const read = async (key) => {
    await page.keyboard.press(key);
    return tip.textContent();
  };
  const first = await read('Home');
  assert.match(first, /^step 5mine\d/);
  assert.match(await read('ArrowRight'), /^step 10mine/);
  assert.equal(await read('ArrowLeft'), first);
  assert.match(await read('End'), /^step 150mine/);
  await page.locator('#smooth').evaluate((slider) => {
    slider.value = '0';
    slider.dispatchEvent(new Event('input'));
  });
  assert.match(await tip.textContent(), /^step 150mine/, 'the crosshair stays when the chart is drawn again');
  await page.keyboard.press('Escape');
  assert.equal(await tip.isVisible(), false);
  const box = await stage.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await tip.waitFor();
  await page.mouse.move(5, 5);
  await tip.waitFor({ state: 'hidden' });
  await page.locator('#axis').selectOption('tokens');
  await page.locator('#log').uncheck();
  await stage.focus();
  assert.match(await read('End'), /^tokens \d{4,}mine/);
  const accuracy = page.locator('#plot-accuracy');
  await accuracy.locator('.lc-stage').focus();
  await page.keyboard.press('End');
  assert.match(await accuracy.locator('.lc-tip').textContent(), /mine[\d.]+ %.*mine: sparse \d+[\d.]+ %/);
  await page.locator('#select-none').click();
  await stage.getByText('Choose a run').waitFor();
  await close();
  assert.deepEqual(faults, []);
});

test('dark by choice, which is kept, and a narrow screen without sideways scrolling', async () => {
  const { page, faults, close } = await openLive({ viewport: { width: 390, height: 800 } });
  await page.locator('#theme').selectOption('dark');
  await page.reload();
  await page.locator('#plot-loss canvas').waitFor();
  await page.locator('#results table').waitFor();
  const [red] = (await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).match(/\d+/g).map(Number);
  assert.ok(red < 60, `${red}`);
  const [content, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert.ok(content <= screen, `${content} > ${screen}`);
  await screenshot(page, 'live_narrow_dark');
  await close();
  assert.deepEqual(faults, []);
});

test('steps that a resumed run does again replace what was known of them', () => {
  const curves = new Curves();
  for (const step of [1, 2, 3, 2]) curves.add({ kind: 'train', step, loss: 10 * step, accuracy: null, tokens: 5 * step });
  curves.add({ kind: 'eval', step: 2, value: 0.25, metric: 'error' });
  curves.add({ kind: 'eval', step: 2, value: 0.5, axis: 'longer', length: 64 });
  assert.deepEqual(curves.rows.step, [1, 2]);
  assert.deepEqual(curves.rows.accuracy, [NaN, NaN]);
  assert.deepEqual(curves.evaluated('tokens'), { x: [10], y: [0.75] });
  assert.deepEqual(curves.conditions(), ['longer 64']);
});

test('smoothing has no bias to the first values; numbers in words', () => {
  assert.deepEqual(smoothed([2, NaN, 2], 0.9), [2, NaN, 2]);
  assert.deepEqual(smoothed([1, 3], 0), [1, 3]);
  assert.deepEqual([null, 59.6, 3723].map(duration), ['', '1:00', '1:02:03']);
  assert.deepEqual([12, 12345, 4.5e6].map(shortCount), ['12', '12.3k', '4.5M']);
});
