// What every kind of panel can do.

export interface PanelView {
  readonly kind: string;
  readonly element: HTMLElement;
  toCanvas(): HTMLCanvasElement;
  destroy(): void;
}

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
