// What every kind of panel can do, and the inks that canvases share with the page's style sheet.

export interface PanelView {
  readonly kind: string;
  readonly element: HTMLElement;
  toCanvas(): HTMLCanvasElement;
  destroy(): void;
}

export interface Inks {
  ink: string;
  muted: string;
  line: string;
  paper: string;
  shade: string;
  accent: string;
}

export function inks(): Inks {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: color('ink'),
    muted: color('muted'),
    line: color('line'),
    paper: color('paper'),
    shade: color('shade'),
    accent: color('accent'),
  };
}

export const FONT = 'system-ui, "Segoe UI", "Liberation Sans", sans-serif';

/** A canvas of so many CSS pixels, sharp on this screen, and its context in CSS pixels. */
export function sharpCanvas(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  if (context === null) throw new Error('this browser has no canvas');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** Four digits at most: what a label or a readout needs. */
export function shortNumber(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? '∞' : value < 0 ? '−∞' : '–';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(2).replace('e+', 'e').replace('.00e', 'e');
  return String(Number(value.toPrecision(4)));
}
