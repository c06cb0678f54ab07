// The script of the page of posenc.view (python/posenc/_view_page.py): the report's view of attention, alone.
import { AttentionView } from '../shared/attention.js';
import { colorTables } from '../shared/map_data.js';
import { addThemeChoice, byId } from '../shared/page_parts.js';

function startView() {
  const header = document.querySelector('header');
  if (header) addThemeChoice(header);
  const colors = JSON.parse(byId('color-data').textContent ?? '{}');
  const { records } = JSON.parse(byId('attention-data').textContent ?? '{}');
  const view = new AttentionView(byId('attention-view'), {
    sequential: colorTables(colors.sequential),
    diverging: colorTables(colors.diverging),
  });
  // For tests: when all is painted.
  Object.assign(window, { posencView: { ready: view.setRecords(records), maps: () => Object.fromEntries(view.maps) } });
}

startView();
