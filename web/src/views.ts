// The views in the order a reader meets them, with words of their own. A kind of plot that this table
// does not know still has a tab, under "more".
import type { Fields, PlotKind } from './messages';

export interface ViewWords {
  tab: string;
  start?: Fields; // what the page sets where nobody has chosen
  folded?: string[]; // fields that only few need
}
export interface ViewGroup {
  title: string;
  kinds: string[];
}

const WORDS: Record<string, ViewWords> = {
  clocks: { tab: 'Clocks', start: { positions: [12] }, folded: ['heads', 'head', 'pairs', 'positions'] },
  sinusoidal: { tab: 'Table' },
  'sinusoidal-curves': { tab: 'Waves' },
  'inner-product': { tab: 'Inner product', folded: ['seed'] },
  similarity: { tab: 'Similarity', folded: ['seed', 'table_std'] },
  decay: {
    tab: 'Decay',
    // Each spec with a theta of its own, so that its slider moves its curve.
    start: {
      encodings: ['rope(theta=1000)', 'rope', 'rope(theta=500000)', 'rope(theta=10000000)'],
      theta: [],
    },
    folded: ['heads', 'head', 'seed', 'theta'],
  },
  wavelengths: { tab: 'Wavelengths', folded: ['heads', 'head'] },
  bias: { tab: 'Bias matrix', folded: ['seed', 'table_std'] },
  'bias-curves': { tab: 'Bias curves', folded: ['seed', 'table_std'] },
  cope: { tab: 'CoPE gates', folded: ['seed', 'head_dim', 'gates'] },
  scores: { tab: 'Two sentences', folded: ['seed', 'table_std', 'head_dim'] },
  pca: { tab: 'PCA', folded: ['seed'] },
  tsne: { tab: 't-SNE', folded: ['seed', 'iterations'] },
  extrapolation: { tab: 'Extrapolation', folded: ['heads', 'head'] },
};

const GROUPS: ViewGroup[] = [
  { title: 'Rotation', kinds: ['clocks', 'inner-product', 'decay', 'wavelengths', 'extrapolation'] },
  { title: 'Position vectors', kinds: ['sinusoidal', 'sinusoidal-curves', 'similarity', 'pca', 'tsne'] },
  { title: 'Bias', kinds: ['bias', 'bias-curves'] },
  { title: 'Content', kinds: ['cope'] },
  { title: 'Attention', kinds: ['scores'] },
];

export function viewWords(kind: string): ViewWords {
  return WORDS[kind] ?? { tab: kind };
}

/** The groups that have something to show, every kind in one of them. */
export function viewGroups(kinds: PlotKind[]): ViewGroup[] {
  const known = new Set(GROUPS.flatMap((group) => group.kinds));
  const names = kinds.map((kind) => kind.name);
  const groups = GROUPS.map((group) => ({
    title: group.title,
    kinds: group.kinds.filter((kind) => names.includes(kind)),
  }));
  groups.push({ title: 'More', kinds: names.filter((name) => !known.has(name)) });
  return groups.filter((group) => group.kinds.length > 0);
}
