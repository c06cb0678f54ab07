// Panels as files: a picture with its title and legend, or the numbers.
import { FONT, pageInks } from '../shared/page_parts.js';
import { shortNumber } from '../shared/value_scale.js';
import type { Curve, Panel } from './messages';

function namedCurves(panel: Panel): Curve[] {
  return panel.curves.filter((curve) => curve.name !== '');
}

/** The panel's canvas on paper, with its title above and its legend below, at the screen's sharpness. */
export function composePicture(panel: Panel, canvas: HTMLCanvasElement, palette: string[]): HTMLCanvasElement {
  const ratio = window.devicePixelRatio || 1;
  const ink = pageInks();
  const curves = namedCurves(panel);
  const legendRow = 20 * ratio;
  const top = 34 * ratio;
  const scale = panel.map === null ? '' : `${panel.map.label}: ${panel.map.range.map(shortNumber).join(' to ')}`;
  const bottom = (curves.length + (scale === '' ? 0 : 1)) * legendRow + 10 * ratio;
  const sheet = document.createElement('canvas');
  sheet.width = canvas.width + 24 * ratio;
  sheet.height = canvas.height + top + bottom;
  const context = sheet.getContext('2d');
  if (context === null) return canvas;
  context.fillStyle = ink.paper;
  context.fillRect(0, 0, sheet.width, sheet.height);
  context.fillStyle = ink.ink;
  context.font = `600 ${15 * ratio}px ${FONT}`;
  context.fillText(panel.title, 12 * ratio, 23 * ratio);
  context.drawImage(canvas, 12 * ratio, top);
  context.font = `${13 * ratio}px ${FONT}`;
  curves.forEach((curve, i) => {
    const y = top + canvas.height + (i + 0.5) * legendRow;
    context.fillStyle = palette[curve.color % palette.length] ?? '#888';
    context.fillRect(14 * ratio, y, 14 * ratio, 4 * ratio);
    context.fillStyle = ink.ink;
    context.fillText(curve.name, 36 * ratio, y + 6 * ratio);
  });
  context.fillStyle = ink.ink;
  if (scale !== '') context.fillText(scale, 14 * ratio, sheet.height - 10 * ratio);
  return sheet;
}

export function canvasBlob(canvas: HTMLCanvasElement): Promise<Blob> {
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob === null ? reject(new Error('no picture')) : resolve(blob)), 'image/png');
  });
}

/** Rows of CSV; fields may be quoted. */
export function readCsv(text: string, most: number): string[][] {
  const rows: string[][] = [];
  const pattern = /("(?:[^"]|"")*"|[^,\n]*)(,|\n|$)/y;
  let row: string[] = [];
  while (rows.length < most && pattern.lastIndex < text.length) {
    const match = pattern.exec(text);
    if (match === null) break;
    const field = match[1] ?? '';
    row.push(field.startsWith('"') ? field.slice(1, -1).replaceAll('""', '"') : field);
    if (match[2] !== ',') {
      rows.push(row);
      row = [];
    }
  }
  return rows;
}
