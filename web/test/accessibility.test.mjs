// No page has a violation that axe-core finds: on a desktop and a phone, light and dark.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import axe from 'axe-core';
import { addressOf, DIST, launchBrowser, openPage, openView } from './support.mjs';
import { POSENC, posenc, python, serveFolder, tinyRun } from './support.mjs';

const SCREENS = { desktop: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } };

// One model, and two next to each other; hidden states as well as ids with their words.
const VIEWS = `
import sys, torch, posenc
torch.manual_seed(1)
x = torch.randn(12, 32)
layers = [posenc.nn.Attention(32, 4, spec, causal=True) for spec in ("rope + alibi", "rope", "none")]
words = [(word, number) for number, word in enumerate("the cat sat on the mat".split())]
model = torch.nn.Sequential(torch.nn.Embedding(8, 32), layers[0], layers[2])
posenc.view(model, words).save(sys.argv[1])
posenc.view(layers[0], x, compare=layers[1]).save(sys.argv[2])
`;

let browser;
let folder;
let explorer;
let server;
let live;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'posenc-accessibility-'));
  for (const encoding of ['rope', 'rope + cope']) tinyRun(folder, encoding);
  posenc('report', folder, '-o', join(folder, 'report.html'));
  python(VIEWS, join(folder, 'view.html'), join(folder, 'compared.html'));
  const empty = join(folder, 'no-explorer'); // the start page stands in for the explorer
  mkdirSync(empty);
  server = spawn(POSENC, ['serve', folder, '--port', '0', '--web', empty]);
  live = await addressOf(server);
  explorer = await serveFolder(DIST);
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  explorer?.close();
  server?.kill('SIGINT');
  rmSync(folder, { recursive: true, force: true });
});

/** What axe finds on a page, a line for each element. */
async function violations(page) {
  await page.evaluate(axe.source);
  const { violations: found } = await page.evaluate(() => window.axe.run());
  return found.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 120)} ${node.failureSummary}`));
}

/** Opens a page on every screen and in both looks, and checks each of its states. */
function check(name, open, states) {
  for (const [screen, viewport] of Object.entries(SCREENS)) {
    for (const colorScheme of ['light', 'dark']) {
      test(`${name}, ${screen}, ${colorScheme}`, async () => {
        const { page, faults, close } = await openPage(browser, { viewport, colorScheme, reducedMotion: 'reduce' });
        await open(page);
        for (const [state, reach] of Object.entries(states)) {
          await reach(page);
          assert.deepEqual(await violations(page), [], state);
        }
        await close();
        assert.deepEqual(faults, []);
      });
    }
  }
}

const view = (link) => (page) => openView(page, explorer.url, link);
check('the explorer', view('view=cope'), {
  'sentences, all unfolded': async (page) => {
    for (const details of await page.locator('details').all()) await details.evaluate((d) => (d.open = true));
  },
  'maps and the tour': view('tour=1'),
  'curves and their numbers': async (page) => {
    await openView(page, explorer.url, 'view=decay&length=32');
    await page.locator('[data-panel="0"] button:has-text("Numbers")').click();
    await page.locator('[data-panel="0"] .panel-table tbody tr').first().waitFor();
  },
  'a wrong view': view('view=clocks&spec=alibi'),
  'points and the help': async (page) => {
    await openView(page, explorer.url, 'view=pca');
    await page.keyboard.press('?');
  },
});

check(
  'the report',
  async (page) => {
    await page.goto(`file://${join(folder, 'report.html')}`);
    await page.evaluate(() => window.posencReport.ready);
  },
  {
    'as it opens': async () => {},
    'all unfolded': async (page) => {
      for (const details of await page.locator('details').all()) await details.evaluate((d) => (d.open = true));
      for (const button of await page.locator('.table-tools button:has-text("CSV")').all()) await button.click();
      await page.locator('#attention-view .hm-over').first().press('Enter');
    },
  },
);

for (const [name, file] of [
  ['a page of posenc.view', 'view.html'],
  ['two models in posenc.view', 'compared.html'],
]) {
  check(
    name,
    async (page) => {
      await page.goto(`file://${join(folder, file)}`);
      await page.evaluate(() => window.posencView.ready);
    },
    {
      'as it opens': async () => {},
      'one head, all unfolded': async (page) => {
        await page.locator('#attention-view .hm-over').first().press('Enter');
        for (const details of await page.locator('details').all()) await details.evaluate((d) => (d.open = true));
      },
    },
  );
}

check(
  'the live page',
  async (page) => {
    await page.goto(`${live}live/`);
    await page.locator('#plot-loss canvas').waitFor();
  },
  {
    'a list of runs': async () => {},
    'one run': async (page) => {
      await page.locator('#runs .run .name').first().click();
      await page.locator('#results table').waitFor();
      for (const details of await page.locator('details').all()) await details.evaluate((d) => (d.open = true));
      await page.locator('#records').selectOption({ index: 1 });
      await page.locator('#attention .hm-over').first().waitFor();
    },
  },
);

check('the start page', (page) => page.goto(live), { 'as it opens': async () => {} });
