// The formulas as LaTeX: one entry per encoding, schedule and kind of axes of the catalogue (a test looks
// for each). `where` explains the letters.

export interface Formula {
  tex: string;
  where: string;
}

/** The four places where position enters attention; include/posenc/posenc.h states the same. */
export const ATTENTION: Formula = {
  tex: String.raw`s_{ij} = \underbrace{\tfrac{1}{\sqrt d}\,\langle T(i)\,q_i,\; T(j)\,k_j\rangle}_{\text{query/key}} + \underbrace{B(h, i, j)}_{\text{bias}} + \underbrace{C(q_i, r_{i\cdot}, i, j)}_{\text{content}}, \qquad q_i, k_i, v_i \leftarrow x_i = \text{token}_i + \underbrace{E(i)}_{\text{input}}`,
  where: 'The score of query i with key j. A spec is a list of terms, each at one of the four places.',
};

export const ENCODINGS: Record<string, Formula> = {
  none: {
    tex: String.raw`s_{ij} = r_{ij} = \tfrac{1}{\sqrt d}\langle q_i, k_j\rangle`,
    where: 'No position at all; under a causal mask only what a query can see tells order.',
  },
  learned: {
    tex: String.raw`E(t) = W_t, \qquad W \in \mathbb{R}^{\text{max\_positions} \times d}`,
    where: 'One trained vector per position; there is none past the table.',
  },
  sinusoidal: {
    tex: String.raw`E(t)_{2i} = \sin\!\big(t\,\theta^{-2i/d}\big), \qquad E(t)_{2i+1} = \cos\!\big(t\,\theta^{-2i/d}\big)`,
    where: 't is the position, i the pair, d the width of the vector.',
  },
  rope: {
    tex: String.raw`q'_n = R(n)\,q_n,\quad R(n)\big|_{\text{pair } p} = \begin{pmatrix}\cos n\omega_p & -\sin n\omega_p\\ \sin n\omega_p & \cos n\omega_p\end{pmatrix},\quad \langle q'_i, k'_j\rangle = q_i^{\top} R(j - i)\,k_j`,
    where: 'Every pair of channels turns by the position times its frequency ω, so a product depends on the distance alone.',
  },
  xpos: {
    tex: String.raw`q'_n = R(n)\,q_n\,\zeta^{\,n/s},\quad k'_n = R(n)\,k_n\,\zeta^{-n/s},\qquad \zeta_p = \frac{2p/d + \gamma}{1 + \gamma}`,
    where: 's is scale_base: per pair, the product carries ζ to the power (i − j)/s and decays with the distance.',
  },
  alibi: {
    tex: String.raw`B(h, i, j) = -m_h\,|i - j|, \qquad m_h = 2^{-b\,h/H},\; h = 1, \dots, H`,
    where: 'A penalty per token of distance; m is the slope of head h, b is bias_max, H the number of heads.',
  },
  t5: {
    tex: String.raw`B(h, i, j) = W_{\mathrm{bucket}(r),\,h},\qquad \mathrm{bucket}(r) = r \;\;(r < m),\quad \min\!\Big(m + \Big\lfloor \tfrac{\ln(r/m)}{\ln(D/m)}\,(n - m)\Big\rfloor,\; n - 1\Big) \;\;(r \ge m)`,
    where: 'r is the distance, n the number of buckets, m = n/2, D is max_distance: near keys one by one, far ones together.',
  },
  kerple: {
    tex: String.raw`B(h, i, j) = -p_h \ln\!\big(1 + a_h |i - j|\big) \quad\text{or}\quad -a_h\,|i - j|^{\,p_h}`,
    where: 'p and a are trained per head, both positive.',
  },
  fire: {
    tex: String.raw`B(h, i, j) = f_h\!\left(\frac{\psi(i - j)}{\psi(\max(i, L))}\right),\qquad \psi(x) = \ln(c\,x + 1)`,
    where: 'f is a small network; a distance is measured against the position of its query, so that every length looks alike.',
  },
  relative: {
    tex: String.raw`B(h, i, j) = W_{h,\;\mathrm{clip}(i - j,\; 0,\; K)}`,
    where: 'A trained number per head and distance; K is max_distance, and farther keys share its entry.',
  },
  cope: {
    tex: String.raw`g_{ij} = \sigma(r_{ij}),\qquad p_{ij} = \min\!\Big(\sum_{t=j}^{i} g_{it},\; P - 1\Big),\qquad c_{ij} = q_i^{\top}\big[(1 - w)\,e_{\lfloor p_{ij}\rfloor} + w\,e_{\lceil p_{ij}\rceil}\big]`,
    where: 'Gates g count the keys that the query finds worth counting; the count p is a fraction, w its part past the whole; P is npos_max.',
  },
  fox: {
    tex: String.raw`s_{ij} = r_{ij} + \sum_{t=j+1}^{i} \ln f_t,\qquad f_t = \sigma(w_h^{\top} x_t + b_h)`,
    where: 'Every token t fades all tokens before it by its gate f, which the model computes from the token.',
  },
  key_bias: {
    tex: String.raw`s_{ij} = r_{ij} + b_j`,
    where: 'b is a number per key and head that the caller gives.',
  },
  softcap: {
    tex: String.raw`s_{ij} \to c \tanh\frac{s_{ij}}{c}`,
    where: 'c is cap: no score leaves (-c, c), and scores far below it stay as they are.',
  },
  sink: {
    tex: String.raw`p_{ij} = \frac{e^{s_{ij}}}{\sum_t e^{s_{it}} + e^{z_h}}`,
    where: 'z is a trained number per head: its share of a row goes to no token.',
  },
};

export const SCHEDULES: Record<string, Formula> = {
  default: {
    tex: String.raw`\omega_p = \theta^{-2p/d}`,
    where: 'The original frequencies: wavelengths grow geometrically from 2π to almost 2πθ tokens.',
  },
  linear: {
    tex: String.raw`\omega_p = \frac{\theta^{-2p/d}}{s}`,
    where: 's is factor: all positions are squeezed into the trained range.',
  },
  ntk: {
    tex: String.raw`\omega_p = \big(\theta\, s^{\,d/(d-2)}\big)^{-2p/d}`,
    where: 's is factor: fast pairs stay as they are, the slowest turns s times slower.',
  },
  dynamic: {
    tex: String.raw`\theta' = \theta\left(\frac{s\,n}{N} - (s - 1)\right)^{d/(d-2)},\qquad n = \max(\text{length}, N)`,
    where: 'N is the trained length: the base follows the length of the sequence.',
  },
  yarn: {
    tex: String.raw`\omega_p = \frac{\theta^{-2p/d}}{s}\,\rho_p + \theta^{-2p/d}\,(1 - \rho_p),\qquad \rho_p = \mathrm{clamp}\!\left(\frac{p - p_{\mathrm{fast}}}{p_{\mathrm{slow}} - p_{\mathrm{fast}}},\, 0,\, 1\right)`,
    where: 'Pairs that turned more than beta_fast times in training stay, those with fewer than beta_slow turns interpolate, a ramp in between.',
  },
  longrope: {
    tex: String.raw`\omega_p = \frac{\theta^{-2p/d}}{\lambda_p}`,
    where: 'λ is a searched factor per pair: one list up to the trained length, another beyond it.',
  },
  llama3: {
    tex: String.raw`\omega_p = \theta^{-2p/d}\,\Big(\frac{1 - t_p}{s} + t_p\Big),\qquad t_p = \mathrm{clamp}\!\left(\frac{N/\lambda_p - a}{b - a},\, 0,\, 1\right)`,
    where: 'Short waves stay, long ones interpolate, those in between blend. λ is the wavelength at the original frequency, N the trained length, a and b are low_freq_factor and high_freq_factor.',
  },
  proportional: {
    tex: String.raw`\omega_p = \begin{cases}\theta^{-2p/d_{\text{head}}}/s & p < \rho\,d_{\text{head}}/2\\ 0 & \text{else}\end{cases}`,
    where: 'ρ is partial_rotary_factor: the other pairs do not turn.',
  },
  'linear-index': {
    tex: String.raw`\omega_p = \frac{1}{1 + 2p}`,
    where: 'Harmonic frequencies; theta is not used.',
  },
  learnable: {
    tex: String.raw`\omega_p = \theta^{-2p/d}\, e^{\alpha_p}`,
    where: 'α is trained and starts at 0.',
  },
};

export const AXES: Record<string, Formula> = {
  single: { tex: String.raw`\varphi_p = \omega_p\, n`, where: 'One position n per token.' },
  axial: {
    tex: String.raw`\varphi_p = \omega_{p - b_a}\, n_a,\qquad p \in \text{block } a`,
    where: 'Pairs in blocks, one per coordinate, each with frequencies of its own.',
  },
  mrope: {
    tex: String.raw`\varphi_p = \omega_p\, n_{a(p)},\qquad a(p) = \text{section of } p`,
    where: 'One set of frequencies; consecutive sections of pairs follow time, height and width.',
  },
  mrope_interleaved: {
    tex: String.raw`\varphi_p = \omega_p\, n_{a(p)},\qquad a(p) = p \bmod 3 \text{ within the sections}`,
    where: 'As mrope, with the coordinates taking turns.',
  },
};
