// What the page and the worker say to each other, and the figures that come back (src/show/web/web.h).

export type Call =
  | { call: 'catalog' }
  | { call: 'spec'; text: string }
  | { call: 'plot'; request: string }
  | { call: 'csv'; request: string; panel: number }
  | { call: 'colors'; map: string; theme: string };
export type Request = Call & { id: number };
export interface Reply {
  id: number;
  result?: unknown;
  problem?: string;
}

export interface ArrayPlace {
  at: number;
  count: number;
  type: 'f32' | 'f64';
}

/** Where a slider runs; by factors if `log`. */
export interface Span {
  low: number;
  high: number;
  log: boolean;
}
export interface FieldDoc {
  name: string;
  type: string;
  default: string;
  range: string;
  doc: string;
  min: number | null;
  max: number | null;
  even: boolean;
  advanced: boolean;
  usual: Span | null;
  example: Json;
  pairs: 'unrelated' | 'entry_each' | 'sum';
}
export interface Entry {
  name: string;
  title: string;
  tex: string;
  where: string; // the letters of the formula
  paper: string;
  site: string;
  relative: boolean;
  extrapolates: boolean;
  linear_attention: boolean;
  fields: FieldDoc[];
}
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Fields = Record<string, Json>;
export interface PlotKind {
  name: string;
  doc: string;
  fields: string[];
  defaults: Fields;
  max_length: number;
  example: string;
}
export interface Catalog {
  version: string;
  encodings: Entry[];
  schedules: Entry[];
  axes: Entry[];
  plots: PlotKind[];
  request_fields: FieldDoc[];
  palette: { light: string[]; dark: string[] };
}

export interface Term {
  name: string;
  fields: Fields;
}
export interface SpecInfo {
  text: string;
  hash: string;
  terms: Term[];
}
export interface Failure {
  error: string;
}

export interface Axis {
  label: string;
  log: boolean;
  base2: boolean;
  range: [number, number];
  words: string[];
}
export type MapName = 'sequential' | 'diverging' | 'cyclic';
export interface HeatmapData {
  rows: number;
  columns: number;
  values: Float32Array;
  x_begin: number;
  x_step: number;
  y_begin: number;
  y_step: number;
  map: MapName;
  range: [number, number];
  label: string;
}
export type Stroke = 'solid' | 'dashed' | 'dots' | 'dots_and_line' | 'steps' | 'bars';
export interface Curve {
  name: string;
  x: Float64Array;
  y: Float64Array;
  low: Float64Array;
  high: Float64Array;
  stroke: Stroke;
  color: number;
}
export interface Region {
  begin: number;
  end: number;
  label: string;
  vertical: boolean;
}
export interface Rule {
  at: number;
  label: string;
  vertical: boolean;
}
export interface Note {
  x: number;
  y: number;
  text: string;
}
export interface Clock {
  label: string;
  angle: number;
  length: number;
  trail: Float64Array;
  muted: boolean;
}
export interface Panel {
  title: string;
  x: Axis;
  y: Axis;
  y_down: boolean;
  square: boolean;
  map: HeatmapData | null;
  regions: Region[];
  curves: Curve[];
  rules: Rule[];
  notes: Note[];
  clocks: Clock[];
  clock_columns: number;
}
export interface Figure {
  title: string;
  caption: string;
  columns: number;
  panel_width: number;
  panel_height: number;
  panels: Panel[];
  milliseconds: number;
}

export function failed(answer: object): answer is Failure {
  return 'error' in answer;
}
