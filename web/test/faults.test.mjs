// What the other browser tests rely on: openPage() notices what a page must not do, and only that.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { launchBrowser, openPage } from './support.mjs';

let browser;
let server;
let url;

// `/hangs` is never answered, `/cut` is hung up on, `/missing` is not there; `/page?body` is a page with that body.
function answer(request, response) {
  const { pathname, search } = new URL(request.url, 'http://localhost');
  if (pathname === '/hangs') return undefined;
  if (pathname === '/cut') return request.socket.destroy();
  if (pathname !== '/page') return response.writeHead(404).end();
  return response.writeHead(200, { 'content-type': 'text/html' }).end(decodeURIComponent(search.slice(1)));
}

before(async () => {
  server = createServer(answer);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${server.address().port}`;
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  server?.closeAllConnections();
  server?.close();
});

/** Opens a page with this body, waits until it has asked for `path`, leaves it, and says what was noticed. */
async function faultsOf(body, path) {
  const { page, faults, close } = await openPage(browser);
  const asked = path && page.waitForRequest((request) => request.url().endsWith(path));
  await page.goto(`${url}/page?${encodeURIComponent(`<link rel="icon" href="data:,">${body}`)}`, { waitUntil: path ? 'commit' : 'load' });
  await asked;
  await page.goto('about:blank');
  const seen = [...faults];
  await close();
  return seen;
}

test('a request aborted by navigation is not a fault', async () => {
  assert.deepEqual(await faultsOf('<img src="/hangs">', '/hangs'), []);
});

test('a request that failed is one', async () => {
  const seen = await faultsOf('<img src="/cut">');
  assert.ok(seen.some((fault) => fault.startsWith(`failed: ${url}/cut (`)), seen.join('\n'));
});

test('so are a file that is not there, a complaint, an error, and another host', async () => {
  for (const [body, noticed] of [
    ['<img src="/missing">', /^console: .*404/],
    ['<script>console.warn("careful")</script>', /^console: careful$/],
    ['<script>throw new Error("thrown")</script>', /^error: thrown$/],
    ['<img src="http://nowhere.invalid/x">', /^network: http:\/\/nowhere\.invalid\/x$/],
  ]) {
    const seen = await faultsOf(body);
    assert.ok(seen.some((fault) => noticed.test(fault)), `${body}: ${seen.join('\n')}`);
  }
});
