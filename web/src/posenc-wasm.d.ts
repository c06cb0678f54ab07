// The module that emscripten makes of web/wasm; build.mjs says where it is.
declare module 'posenc-wasm' {
  export interface PosencModule {
    HEAPU8: Uint8Array;
    HEAPF32: Float32Array;
    HEAPF64: Float64Array;
    UTF8ToString(at: number): string;
    stringToUTF8(text: string, at: number, size: number): void;
    lengthBytesUTF8(text: string): number;
    _malloc(size: number): number;
    _free(at: number): void;
    _posenc_web_catalog(): number;
    _posenc_web_spec(spec: number): number;
    _posenc_web_plot(request: number): number;
    _posenc_web_describe(figure: number): number;
    _posenc_web_csv(figure: number, panel: number): number;
    _posenc_web_free(figure: number): void;
    _posenc_web_color_table(map: number, theme: number): number;
  }
  export default function createPosenc(options: {
    locateFile?: (name: string) => string;
    wasmBinary?: ArrayBuffer | Uint8Array;
  }): Promise<PosencModule>;
}
