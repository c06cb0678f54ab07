// The library as the page sees it: questions to the worker, answers as promises.
import type { Call, Catalog, Failure, Figure, MapName, Reply, SpecInfo } from './messages';

// The library writes a list of one as its entry; the page wants lists to be lists.
function withLists(catalog: Catalog): Catalog {
  const lists = new Set(catalog.request_fields.filter((f) => f.type.endsWith('or list')).map((f) => f.name));
  for (const kind of catalog.plots) {
    for (const [name, value] of Object.entries(kind.defaults)) {
      if (lists.has(name) && !Array.isArray(value)) kind.defaults[name] = [value];
    }
  }
  return catalog;
}

export class Engine {
  private readonly worker: Worker;
  private readonly waiting = new Map<number, { settle: (reply: Reply) => void }>();
  private readonly tables = new Map<string, Promise<Uint8Array>>();
  private next = 0;

  constructor() {
    this.worker = new Worker(new URL('worker.js', document.baseURI), { type: 'module' });
    this.worker.onmessage = (event: MessageEvent<Reply>) => {
      this.waiting.get(event.data.id)?.settle(event.data);
      this.waiting.delete(event.data.id);
    };
    this.worker.onerror = (event) => {
      for (const { settle } of this.waiting.values()) settle({ id: -1, problem: event.message });
      this.waiting.clear();
    };
  }

  async catalog(): Promise<Catalog> {
    return withLists(await this.ask<Catalog>({ call: 'catalog' }));
  }
  spec(text: string): Promise<SpecInfo | Failure> {
    return this.ask({ call: 'spec', text });
  }
  plot(request: object): Promise<Figure | Failure> {
    return this.ask({ call: 'plot', request: JSON.stringify(request) });
  }
  csv(request: object, panel: number): Promise<string> {
    return this.ask({ call: 'csv', request: JSON.stringify(request), panel });
  }
  /** 256 colours of 3 bytes for both themes. */
  async colors(map: MapName): Promise<{ light: Uint8Array; dark: Uint8Array }> {
    const [light, dark] = await Promise.all([this.table(map, 'light'), this.table(map, 'dark')]);
    return { light, dark };
  }

  private table(map: MapName, theme: string): Promise<Uint8Array> {
    const key = `${map} ${theme}`;
    let table = this.tables.get(key);
    if (table === undefined) {
      table = this.ask<Uint8Array>({ call: 'colors', map, theme });
      this.tables.set(key, table);
    }
    return table;
  }

  private ask<T>(call: Call): Promise<T> {
    const id = this.next++;
    return new Promise<T>((resolve, reject) => {
      this.waiting.set(id, {
        settle: (reply) => {
          if (reply.problem !== undefined) reject(new Error(reply.problem));
          else resolve(reply.result as T);
        },
      });
      this.worker.postMessage({ ...call, id });
    });
  }
}
