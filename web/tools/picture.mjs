// Writes docs/images/explorer.png, the picture of the page that README shows: `npm run picture` after `make web`.
import { join } from 'node:path';
import { DIST, launchBrowser, openPage, openView, ROOT, serveFolder } from '../test/support.mjs';

const VIEW = 'view=cope';

const server = await serveFolder(DIST);
const browser = await launchBrowser();
const { page } = await openPage(browser, { viewport: { width: 1280, height: 800 }, colorScheme: 'light' });
await openView(page, server.url, VIEW);
await page.screenshot({ path: join(ROOT, 'docs/images/explorer.png') });
await browser.close();
server.close();
