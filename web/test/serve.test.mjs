// The page from `posenc serve`, under its own headers.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { addressOf, DIST, launchBrowser, openPage, openView, POSENC, redrawn } from './support.mjs';

let browser;
let folder;
let server;
let url;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'posenc-serve-'));
  server = spawn(POSENC, ['serve', folder, '--port', '0', '--web', DIST]);
  url = await addressOf(server);
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  server?.kill('SIGINT');
  rmSync(folder, { recursive: true, force: true });
});

test('posenc serve shows the explorer, and its policy lets every view and formula be', async () => {
  const { page, faults, close } = await openPage(browser);
  await openView(page, url);
  assert.match(await page.title(), /posenc explorer/);
  assert.equal(await page.locator('#site-links a').getAttribute('href'), '/live/');
  await redrawn(page, () => page.locator('#views a[data-view="bias"]').click());
  const names = await page.locator('#term-0').locator('option').allTextContents();
  for (const name of names) {
    await page.locator('#term-0').selectOption(name);
    await page.locator(`[data-formula="${name}"] .katex`).waitFor();
  }
  assert.ok(names.length >= 10);
  await close();
  assert.deepEqual(faults, []);
});
