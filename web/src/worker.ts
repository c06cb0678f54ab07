// The library, in a thread of its own: a long computation never stops the page.
import createPosenc, { type PosencModule } from 'posenc-wasm';
import type { ArrayPlace, Reply, Request } from './messages';

let library: PosencModule | undefined;

function withText<T>(posenc: PosencModule, text: string, use: (at: number) => T): T {
  const size = posenc.lengthBytesUTF8(text) + 1;
  const at = posenc._malloc(size);
  posenc.stringToUTF8(text, at, size);
  try {
    return use(at);
  } finally {
    posenc._free(at);
  }
}

function copyArray(posenc: PosencModule, place: ArrayPlace): Float32Array | Float64Array {
  const { at, count, type } = place;
  if (type === 'f32') return posenc.HEAPF32.slice(at / 4, at / 4 + count);
  return posenc.HEAPF64.slice(at / 8, at / 8 + count);
}

// Puts numbers where the description names addresses.
function fillArrays(posenc: PosencModule, node: unknown, moved: ArrayBufferLike[]): unknown {
  if (Array.isArray(node)) return node.map((item) => fillArrays(posenc, item, moved));
  if (node === null || typeof node !== 'object') return node;
  if ('at' in node && 'count' in node && 'type' in node) {
    const array = copyArray(posenc, node as unknown as ArrayPlace);
    moved.push(array.buffer);
    return array;
  }
  const entries = Object.entries(node).map(([key, value]) => [key, fillArrays(posenc, value, moved)]);
  return Object.fromEntries(entries);
}

interface Answer {
  result: unknown;
  moved: ArrayBufferLike[];
}

function withFigure<T>(posenc: PosencModule, request: string, use: (figure: number) => T): T {
  const figure = withText(posenc, request, (at) => posenc._posenc_web_plot(at));
  try {
    return use(figure);
  } finally {
    posenc._posenc_web_free(figure);
  }
}

function plot(posenc: PosencModule, request: string): Answer {
  const start = performance.now();
  return withFigure(posenc, request, (figure) => {
    const description = JSON.parse(posenc.UTF8ToString(posenc._posenc_web_describe(figure))) as object;
    const moved: ArrayBufferLike[] = [];
    const filled = fillArrays(posenc, description, moved) as object;
    return { result: { ...filled, milliseconds: performance.now() - start }, moved };
  });
}

function csv(posenc: PosencModule, request: string, panel: number): Answer {
  const text = withFigure(posenc, request, (figure) =>
    posenc.UTF8ToString(posenc._posenc_web_csv(figure, panel)),
  );
  return { result: text, moved: [] };
}

function colors(posenc: PosencModule, map: string, theme: string): Answer {
  const at = withText(posenc, map, (m) =>
    withText(posenc, theme, (t) => posenc._posenc_web_color_table(m, t)),
  );
  if (at === 0) throw new Error(`there is no colour map ${map} for ${theme}`);
  return { result: posenc.HEAPU8.slice(at, at + 768), moved: [] };
}

function answer(posenc: PosencModule, request: Request): Answer {
  switch (request.call) {
    case 'catalog':
      return { result: JSON.parse(posenc.UTF8ToString(posenc._posenc_web_catalog())), moved: [] };
    case 'spec': {
      const at = withText(posenc, request.text, (text) => posenc._posenc_web_spec(text));
      return { result: JSON.parse(posenc.UTF8ToString(at)), moved: [] };
    }
    case 'plot':
      return plot(posenc, request.request);
    case 'csv':
      return csv(posenc, request.request, request.panel);
    case 'colors':
      return colors(posenc, request.map, request.theme);
  }
}

self.onmessage = async (event: MessageEvent<Request>) => {
  const request = event.data;
  try {
    library ??= await createPosenc({ locateFile: (name) => new URL(name, self.location.href).href });
    const { result, moved } = answer(library, request);
    const reply: Reply = { id: request.id, result };
    self.postMessage(reply, { transfer: moved as Transferable[] });
  } catch (problem) {
    const reply: Reply = { id: request.id, problem: String(problem) };
    self.postMessage(reply);
  }
};
