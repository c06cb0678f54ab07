import 'katex/dist/katex.css';
import 'uplot/dist/uPlot.min.css';
import '../shared/theme.css';
import '../shared/heatmap.css';
import '../shared/line_chart.css';
import './style.css';
import { App } from './app';
import { byId } from './dom';
import { Engine } from './engine';
import { restoreTheme } from '../shared/page_parts.js';

restoreTheme();
try {
  const engine = new Engine();
  await new App(engine, await engine.catalog()).start();
} catch (problem) {
  byId('problem').textContent = `The page could not start: ${String(problem)}`;
}
