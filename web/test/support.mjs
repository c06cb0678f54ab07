// What the tests share: the page served as `posenc serve` serves it, a browser, the program, and CSV.
import { execFileSync, spawnSync } from 'node:child_process';
import { createReadStream, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');
export const DIST = join(ROOT, 'build/web/dist');
export const POSENC = process.env.POSENC ?? join(ROOT, 'build/release/bin/posenc');
const SCREENSHOTS = join(ROOT, 'build/web/screenshots');

const TYPES = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.wasm': 'application/wasm',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
  '.txt': 'text/plain',
};
// The strictest policy that the page is meant to live under.
const POLICY = "default-src 'self' 'wasm-unsafe-eval'";

export async function serveFolder(folder) {
  const server = createServer((request, response) => {
    const path = new URL(request.url, 'http://localhost').pathname;
    const file = join(folder, normalize(path === '/' ? '/index.html' : path));
    if (!existsSync(file)) return response.writeHead(404).end();
    const type = TYPES[extname(file)] ?? 'application/octet-stream';
    response.writeHead(200, { 'content-type': type, 'content-security-policy': POLICY });
    return createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}

export function posenc(...words) {
  return execFileSync(POSENC, words, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** Runs a program in the first Python that has torch, with the package of the build tree. */
export function python(program, ...words) {
  const hasTorch = (name) => spawnSync(name, ['-c', 'import torch']).status === 0;
  const found = [process.env.PYTHON ?? 'python3', '/usr/bin/python3'].find(hasTorch);
  if (!found) throw new Error('no python3 with torch was found; install python3-torch or set PYTHON');
  const env = { ...process.env, PYTHONPATH: join(ROOT, 'build/release/python') };
  return execFileSync(found, ['-c', program, ...words], { encoding: 'utf8', env, stdio: ['ignore', 'pipe', 'pipe'] });
}

/** Trains a model of the demo for a few steps below `folder`, and records its attention. */
export function tinyRun(folder, encoding) {
  const run = join(folder, encoding.replaceAll(/\W+/g, '_'));
  const settings = [`model.encoding=${encoding}`, 'train.steps=20', 'train.log_every=5', 'eval.samples=16'];
  posenc('train', 'configs/demo.yaml', '--out', run, ...settings.flatMap((s) => ['--set', s]));
  posenc('attention', run, '--sample', '0', '-o', join(folder, 'attention.svg'));
}

/** Where a `posenc serve` that was just started says that it serves. */
export function addressOf(child) {
  return new Promise((resolve, reject) => {
    let said = '';
    child.stdout.on('data', (bytes) => {
      said += bytes;
      const found = /http:\/\/127\.0\.0\.1:\d+\//.exec(said);
      if (found) resolve(found[0]);
    });
    child.on('exit', (code) => reject(new Error(`posenc serve ended with ${code}: ${said}`)));
  });
}

export function launchBrowser() {
  const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
}

// What the browser says of requests that it gave up itself, because the page they belong to was left: the tab's
// icon is often still on its way then. A server that is absent, refuses or hangs up has other names.
const GIVEN_UP = 'net::ERR_ABORTED';

/** A page that remembers what it must not do: complain, fail, or ask the network for anything. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, acceptDownloads: true, ...options });
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const page = await context.newPage();
  const faults = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('requestfailed', (request) => {
    const reason = request.failure()?.errorText;
    if (reason !== GIVEN_UP) faults.push(`failed: ${request.url()} (${reason})`);
  });
  context.on('request', (request) => {
    if (!/^(http:\/\/127\.0\.0\.1[:/]|file:|data:|blob:|about:)/.test(request.url())) faults.push(`network: ${request.url()}`);
  });
  return { page, faults, close: () => context.close() };
}

/** Opens a view of the explorer and waits for its figure. */
export async function openView(page, url, hash = '') {
  await page.goto('about:blank');
  await page.goto(`${url}#${hash}`);
  await page.locator('html[data-ready="true"]').waitFor({ state: 'attached', timeout: 60000 });
}

/** Does something that draws a figure, and waits until it is drawn. */
export async function redrawn(page, act) {
  const before = Number(await page.locator('#status').getAttribute('data-serial'));
  await act();
  for (let waited = 0; waited < 30000; waited += 20) {
    if (Number(await page.locator('#status').getAttribute('data-serial')) > before) return;
    await page.waitForTimeout(20);
  }
  throw new Error('no new figure within 30 s');
}

/** Milliseconds from the wish for a map of this length to the painted map, by the page's own clock. */
export async function timeOfMap(page, url, length) {
  await openView(page, url, 'view=bias&spec=alibi&length=64');
  await redrawn(page, async () => {
    await page.locator('#view-length').fill(String(length));
    await page.locator('#view-length').blur();
  });
  return Number(await page.locator('#status').getAttribute('data-total'));
}

export async function screenshot(page, name) {
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: true });
}

/** The CSV that the program writes for these options of `posenc plot`. */
export function plotCsv(options) {
  const folder = mkdtempSync(join(tmpdir(), 'posenc-web-'));
  try {
    const file = join(folder, 'figure.csv');
    execFileSync(POSENC, ['plot', ...options, '-o', file]);
    return readFileSync(file, 'utf8');
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The same, from a command line as the page shows it. */
export function commandCsv(command) {
  const folder = mkdtempSync(join(tmpdir(), 'posenc-web-'));
  try {
    const file = join(folder, 'figure.csv');
    const line = command.replace(/^posenc /, `'${POSENC}' `);
    execFileSync('sh', ['-c', `${line} -o '${file}'`]);
    return readFileSync(file, 'utf8');
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export function csvRows(text) {
  const rows = [];
  for (const line of text.trimEnd().split('\n')) {
    rows.push([...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].map((m) => m[1]).slice(0, 8));
  }
  return rows;
}

/**
 * The first difference between two CSV texts, or ''. Words are equal; numbers agree to `tolerance`, relative
 * above 1: libm's last bit may differ between a browser and this machine. Maps are float32.
 */
export function csvDifference(a, b, tolerance = 1e-12) {
  const [left, right] = [csvRows(a), csvRows(b)];
  if (left.length !== right.length) return `${left.length} rows against ${right.length}`;
  for (let r = 0; r < left.length; ++r) {
    for (let c = 0; c < left[r].length; ++c) {
      const [x, y] = [left[r][c], right[r][c]];
      if (x === y) continue;
      const near = left[r][1] === 'map' ? Math.max(tolerance, 2e-7) : tolerance;
      const size = Math.max(1, Math.abs(Number(x)), Math.abs(Number(y)));
      const numbers = x !== '' && y !== '' && Number.isFinite(Number(x)) && Number.isFinite(Number(y));
      if (!numbers || Math.abs(Number(x) - Number(y)) > near * size) return `row ${r}: ${left[r]} against ${right[r]}`;
    }
  }
  return '';
}
