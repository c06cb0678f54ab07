// The guided tour: eight views in an order that builds up, each with one thing to try.

export interface Chapter {
  title: string;
  link: string; // the view, as the fragment of a link
  text: string;
  attempt: string; // what the reader can do in this view
}

export const CHAPTERS: Chapter[] = [
  {
    title: 'Why position?',
    link: 'view=scores&spec=none&causal=false',
    text:
      'Attention scores every word against every other word. Without an encoding of position the score depends on ' +
      'the two words alone. Both sentences have the same words, so their maps hold the same numbers in another ' +
      'order: the model cannot tell who bit whom.',
    attempt: 'Choose rope in “+ add a term”. Equal words now score differently at different places.',
  },
  {
    title: 'A vector for each position',
    link: 'view=sinusoidal-curves',
    text:
      'The first Transformer adds a vector to each word. Its numbers are sines and cosines of the position, one ' +
      'wavelength for each pair of dimensions. Short waves tell neighbours apart, long waves tell distant places apart.',
    attempt: 'Move the slider of the length to the right: the longest waves begin to bend.',
  },
  {
    title: 'Rotate instead of add',
    link: 'view=clocks&spec=rope',
    text:
      'RoPE leaves the word as it is. It rotates pairs of channels of each query and key by an angle that grows with ' +
      'the position. Each clock is one pair, and the number is how many tokens a full turn takes.',
    attempt: 'Press Play. The first hands turn within a few tokens, the last ones hardly move.',
  },
  {
    title: 'Only the distance counts',
    link: 'view=inner-product&spec=rope',
    text:
      'A query rotated by its position and a key rotated by its own give a product that depends on the distance ' +
      'between them alone. That is why every diagonal of this map has one colour.',
    attempt: 'Click two cells of one diagonal to pin them, and compare their values.',
  },
  {
    title: 'The base sets the reach',
    link: 'view=decay&spec=rope&spec=rope(theta=500000)&theta=',
    text:
      'The base theta sets how slow the slowest pairs are. With a larger base, the product of equal vectors stays high ' +
      'over a longer distance. Models for long texts use 500000 and more in place of 10000.',
    attempt: 'Move the slider of theta and watch the first curve.',
  },
  {
    title: 'A penalty for distance',
    link: 'view=bias&spec=alibi',
    text:
      'ALiBi leaves queries and keys alone. It subtracts the distance, times a slope, from each score, so that near ' +
      'words win. Each head has a slope of its own.',
    attempt: 'Move the slider of the head: the first heads look near, the last ones far.',
  },
  {
    title: 'Longer than training',
    link: 'view=extrapolation&spec=rope',
    text:
      'At lengths beyond training, slow pairs reach angles that the model has never seen. Coloured cells are such ' +
      'angles. A schedule slows the rotation down, so that a longer text fits into the angles of training.',
    attempt: 'Choose linear as the schedule, with factor 4: the unseen angles are gone.',
  },
  {
    title: 'CoPE counts sentences',
    link: 'view=cope',
    text:
      'CoPE does not count every token. Each word opens a gate or keeps it closed, and the position of a key is the ' +
      'sum of the open gates between it and the query. With gates that open on full stops, positions count sentences.',
    attempt: 'Add a sentence to the text, or let the gates open on another word.',
  },
];
