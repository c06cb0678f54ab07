// The live page of `posenc serve`, while a training runs below its folder.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
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

test('a run appears, its curve grows, it finishes, and its attention is computed on request', async () => {
  const { page, faults, close } = await openPage(browser);
  await page.goto(`${url}live/`);
  const run = page.locator('#runs .run').first();
  await run.waitFor({ timeout: 120000 });
  await page.locator('#runs .badge.finished').waitFor({ timeout: 240000 });
  await run.locator('button, .name').first().click();
  await page.locator('#results table').waitFor();
  assert.match(await page.locator('#config').textContent(), /selective_copy/);
  await page.locator('#attention-part summary').click();
  await page.locator('#sample').fill('1');
  await page.locator('#attention-form button').click();
  await page.locator('#attention canvas').first().waitFor({ timeout: 120000 });
  await screenshot(page, 'live_light');
  await close();
  assert.deepEqual(faults, []);
});
