// The views in the order a reader meets them, with words of their own. A kind of plot that this table
// does not know still has a tab, under "more".
import type { Fields, PlotKind } from './messages';

export interface ViewWords {
  tab: string;
  start?: Fields; // what the page sets until the user chooses
  folded?: string[]; // fields that this view folds away with the advanced ones
}
export interface ViewGroup {
  title: string;
  kinds: string[];
}

const WORDS: Record<string, ViewWords> = {
  clocks: { tab: 'Clocks', start: { positions: [12] }, folded: ['heads', 'head', 'positions'] },
  sinusoidal: { tab: 'Table' },
  'sinusoidal-curves': { tab: 'Waves' },
  'inner-product': { tab: 'Inner product' },
  similarity: { tab: 'Similarity', folded: ['table_std'] },
  decay: {
    tab: 'Decay',
    // Each spec with a theta of its own, so that its slider moves its curve.
    start: {
      encodings: ['rope(theta=1000)', 'rope', 'rope(theta=500000)', 'rope(theta=10000000)'],
      theta: [],
    },
    folded: ['heads', 'head'],
  },
  wavelengths: { tab: 'Wavelengths', folded: ['heads', 'head'] },
  bias: { tab: 'Bias matrix', folded: ['table_std'] },
  'bias-curves': { tab: 'Bias curves', folded: ['table_std'] },
  cope: { tab: 'CoPE gates', folded: ['head_dim'] },
  scores: { tab: 'Two sentences', folded: ['table_std', 'head_dim'] },
  pca: { tab: 'PCA' },
  tsne: { tab: 't-SNE' },
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
