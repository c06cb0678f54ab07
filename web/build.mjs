// Bundles the page into ../build/web/dist: nothing there asks the network for anything.
import { build } from 'esbuild';
import { cp, mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const web = dirname(fileURLToPath(import.meta.url));
const wasm = join(web, '../build/web/wasm');
const dist = join(web, '../build/web/dist');

await stat(join(wasm, 'posenc.wasm')).catch(() => {
  console.error('build.mjs: build/web/wasm/posenc.wasm is missing; run tools/build_web.sh wasm first');
  process.exit(1);
});
await rm(dist, { recursive: true, force: true });
await mkdir(dist, { recursive: true });

const common = {
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  logLevel: 'warning',
  alias: { 'posenc-wasm': join(wasm, 'posenc.mjs') },
};
// The three formats of each KaTeX font say the same; browsers of today read woff2.
const onlyWoff2 = {
  name: 'only-woff2',
  setup(plugin) {
    plugin.onResolve({ filter: /\.(woff|ttf)$/ }, (args) => ({ path: args.path, external: true }));
  },
};
await build({
  ...common,
  entryPoints: { main: join(web, 'src/main.ts'), worker: join(web, 'src/worker.ts') },
  outdir: dist,
  loader: { '.woff2': 'file' },
  assetNames: 'fonts/[name]',
  plugins: [onlyWoff2],
});
await cp(join(wasm, 'posenc.wasm'), join(dist, 'posenc.wasm'));
for (const name of ['src/index.html', 'shared/icon.svg']) await cp(join(web, name), join(dist, basename(name)));

// The licences of what is bundled travel with it.
const notices = [];
for (const name of ['katex', 'uplot']) {
  const { readFile } = await import('node:fs/promises');
  notices.push(`${name}\n\n${await readFile(join(web, 'node_modules', name, 'LICENSE'), 'utf8')}`);
}
await writeFile(join(dist, 'LICENSES.txt'), notices.join('\n\n'));
