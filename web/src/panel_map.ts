// A map of colours: the shared heatmap with its colour scale.
import { ColorBar } from '../shared/color_bar.js';
import { Heatmap, type HeatmapOptions } from '../shared/heatmap.js';
import { mapExtent } from '../shared/map_data.js';
import type { PanelView } from './panel';
import { make } from './dom';
import type { HeatmapData, Panel } from './messages';

export type ColorTables = { light: Uint8Array; dark: Uint8Array };

interface Parts {
  data: { rows: number; columns: number; values: Float32Array };
  options: Omit<HeatmapOptions, 'data' | 'tables'>;
  extent: [number, number];
}

// The heatmap's row 0 is on top; a panel whose y axis points up has its row 0 at the bottom.
function upright(map: HeatmapData, down: boolean): Float32Array {
  if (down) return map.values;
  const flipped = new Float32Array(map.values.length);
  for (let r = 0; r < map.rows; ++r) {
    const from = (map.rows - 1 - r) * map.columns;
    flipped.set(map.values.subarray(from, from + map.columns), r * map.columns);
  }
  return flipped;
}

// A rule is a region without width: the heatmap draws its end as a dashed line.
function marks(panel: Panel, map: HeatmapData): HeatmapOptions['regions'] {
  const cell = (at: number, vertical: boolean): number => {
    if (vertical) return (at - map.x_begin) / map.x_step + 0.5;
    const row = (at - map.y_begin) / map.y_step + 0.5;
    return panel.y_down ? row : map.rows - row;
  };
  const regions = panel.rules.map((rule) => ({ ...rule, begin: rule.at, end: rule.at }));
  return [...panel.regions, ...regions].map(({ begin, end, label, vertical }) => ({
    begin: cell(begin, vertical),
    end: cell(end, vertical),
    label,
    axis: vertical ? ('columns' as const) : ('rows' as const),
  }));
}

function partsOf(panel: Panel, map: HeatmapData, aspect: number): Parts {
  const down = panel.y_down;
  const last = map.rows - 1;
  const data = { rows: map.rows, columns: map.columns, values: upright(map, down) };
  const words = down ? panel.y.words : [...panel.y.words].reverse();
  return {
    data,
    extent: mapExtent(data),
    options: {
      scale: { low: map.range[0], high: map.range[1], kind: 'linear' },
      rows: {
        label: panel.y.label,
        words: words.length > 0 ? words : undefined,
        begin: down ? map.y_begin : map.y_begin + last * map.y_step,
        step: down ? map.y_step : -map.y_step,
      },
      columns: {
        label: panel.x.label,
        words: panel.x.words.length > 0 ? panel.x.words : undefined,
        begin: map.x_begin,
        step: map.x_step,
      },
      regions: marks(panel, map),
      label: panel.title,
      signed: map.map === 'diverging',
      height: panel.square || map.rows === map.columns ? undefined : aspect,
      maxHeight: 560,
    },
  };
}

export class MapPanel implements PanelView {
  readonly kind = 'map';
  readonly element = make('div', { class: 'panel-map' });
  private readonly heatmap: Heatmap;
  private readonly bar: ColorBar;

  constructor(panel: Panel, tables: ColorTables, height: number) {
    const map = panel.map as HeatmapData;
    const { data, options, extent } = partsOf(panel, map, height);
    const stage = make('div');
    const scale = make('div', { class: 'panel-scale' });
    this.element.append(stage, scale);
    this.heatmap = new Heatmap(stage, { data, tables, ...options });
    this.bar = new ColorBar(scale, {
      extent: [Math.min(extent[0], map.range[0]), Math.max(extent[1], map.range[1])],
      scale: options.scale,
      tables,
      label: map.label,
      onChange: (changed) => this.heatmap.setScale(changed),
    });
  }

  /** Other numbers in the same place: view and pins stay where the shape does. */
  update(panel: Panel, tables: ColorTables, height: number): void {
    const map = panel.map as HeatmapData;
    const { data, options, extent } = partsOf(panel, map, height);
    this.heatmap.setTables(tables);
    this.heatmap.setData(data, options);
    this.bar.set({
      extent: [Math.min(extent[0], map.range[0]), Math.max(extent[1], map.range[1])],
      scale: options.scale,
      tables,
      label: map.label,
    });
  }
  toCanvas(): HTMLCanvasElement {
    return this.heatmap.toCanvas();
  }
  destroy(): void {
    this.heatmap.destroy();
    this.bar.destroy();
  }
}
