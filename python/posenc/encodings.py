"""Every encoding as a class. An instance is a :class:`posenc.Spec` of one encoding.

Made by tools/python_constructors.py from the catalogue of the library."""

from __future__ import annotations

from typing import Literal, Optional, Sequence, Union

from posenc._construct import Axes, Encoding, Schedule

__all__ = [
    "Alibi",
    "Cope",
    "Fire",
    "Fox",
    "GrapeAp",
    "Kerple",
    "KeyBias",
    "Learned",
    "NoPositions",
    "Path",
    "Relative",
    "Relative2d",
    "RelativeQuery",
    "Rope",
    "Sink",
    "Sinusoidal",
    "Softcap",
    "StickBreaking",
    "T5",
    "Temperature",
    "Wall",
    "Xpos",
]


class NoPositions(Encoding):
    """no positions (NoPE): s_ij = r_ij

    Kazemnejad et al. 2023, arXiv 2305.19466
    """

    def __init__(self) -> None:
        self._construct("none")


class Learned(Encoding):
    """learned absolute positions: E(t) = weight[t]

    Gehring et al. 2017, arXiv 1705.03122

    ``max_positions``: rows of the table; a later position is an error (in [1, 1073741824])
    ``init_std``: standard deviation of the initial weights (in [0, 100])
    """

    def __init__(self, *, max_positions: int = 2048, init_std: float = 0.02) -> None:
        self._construct("learned", max_positions=max_positions, init_std=init_std)


class Sinusoidal(Encoding):
    """sinusoidal absolute positions: E(t)[2i] = sin(t theta^(-2i/d)), E(t)[2i+1] = cos(t theta^(-2i/d))

    Vaswani et al. 2017, arXiv 1706.03762

    ``theta``: base of the frequencies (in (1, 1e+18])
    ``layout``: sine and cosine adjacent, or in two halves
    ``spacing``: exponent 2i/d, or i/(d/2 - 1) as in tensor2tensor and fairseq
    """

    def __init__(
        self,
        *,
        theta: float = 10000,
        layout: Literal["interleaved", "concat"] = "interleaved",
        spacing: Literal["paper", "tensor2tensor"] = "paper",
    ) -> None:
        self._construct("sinusoidal", theta=theta, layout=layout, spacing=spacing)


class Rope(Encoding):
    """rotary position embedding: q'_i = R(i) q_i, k'_j = R(j) k_j; <q'_i, k'_j> depends on i - j

    Su et al. 2021, arXiv 2104.09864

    ``theta``: base of the frequencies; a list has one per group of heads (in (1, 1e+30])
    ``layout``: which channels make a pair
    ``rotary_dim``: channels that are rotated; 0 means all from dim_offset on (in [0, 1048576] and even)
    ``dim_offset``: first channel that is rotated (in [0, 1048576])
    ``inverse``: rotate by the negative angle
    ``schedule``: how frequencies depend on the length
    ``axes``: coordinates of a position
    ``precision``: angles in float64, or rounded to float32 as in Hugging Face
    ``angles``: source of the angles: positions, or an input
    ``running``: the input holds increments; angles are their sums
    ``values``: also rotate values, and outputs back
    """

    def __init__(
        self,
        *,
        theta: Union[float, Sequence[float]] = 10000,
        layout: Literal["half", "interleaved"] = "half",
        rotary_dim: int = 0,
        dim_offset: int = 0,
        inverse: bool = False,
        schedule: Union[Schedule, str] = "default",
        axes: Union[Axes, str] = "single",
        precision: Literal["exact", "hf"] = "exact",
        angles: Literal["position", "input", "input_position"] = "position",
        running: bool = False,
        values: bool = False,
    ) -> None:
        self._construct(
            "rope",
            theta=theta,
            layout=layout,
            rotary_dim=rotary_dim,
            dim_offset=dim_offset,
            inverse=inverse,
            schedule=schedule,
            axes=axes,
            precision=precision,
            angles=angles,
            running=running,
            values=values,
        )


class Xpos(Encoding):
    """rotation with exponential decay: q'_n = R(n) q_n zeta^(n/s), k'_n = R(n) k_n zeta^(-n/s)

    Sun et al. 2022, arXiv 2212.10554

    ``theta``: base of the frequencies (in (1, 1e+30])
    ``layout``: which channels make a pair
    ``rotary_dim``: channels that are rotated; 0 means all from dim_offset on (in [0, 1048576] and even)
    ``dim_offset``: first channel that is rotated (in [0, 1048576])
    ``gamma``: smoothing; larger values decay less (in (0, 1e+06])
    ``scale_base``: positions per power of zeta (in (0, 1e+15])
    ``center``: position of magnitude one; default: the middle of the sequence
    ``precision``: angles in float64, or rounded to float32 as in Hugging Face
    """

    def __init__(
        self,
        *,
        theta: float = 10000,
        layout: Literal["half", "interleaved"] = "half",
        rotary_dim: int = 0,
        dim_offset: int = 0,
        gamma: float = 0.4,
        scale_base: float = 512,
        center: Optional[float] = None,
        precision: Literal["exact", "hf"] = "exact",
    ) -> None:
        self._construct(
            "xpos",
            theta=theta,
            layout=layout,
            rotary_dim=rotary_dim,
            dim_offset=dim_offset,
            gamma=gamma,
            scale_base=scale_base,
            center=center,
            precision=precision,
        )


class Temperature(Encoding):
    """queries scaled by their position: q'_i = tau(i) q_i, tau = 1 + scale ln(1 + floor((i + 1) / floor))

    Nakanishi 2025, arXiv 2501.19399

    ``kind``: formula of the factor
    ``scale``: growth per natural logarithm; step and log (in [0, 1000])
    ``floor``: positions before it grows; step and log (in [1, 1e+15])
    ``init``: initial value of every head's factor; ssmax (in [-1000, 1000])
    ``offset``: added to the position to count tokens: 1, or 0 as in Ministral 3 (in [0, 1])
    """

    def __init__(
        self,
        *,
        kind: Literal["step", "log", "ssmax"] = "step",
        scale: float = 0.1,
        floor: float = 8192,
        init: float = 0.43,
        offset: int = 1,
    ) -> None:
        self._construct("temperature", kind=kind, scale=scale, floor=floor, init=init, offset=offset)


class Path(Encoding):
    """Householder steps between key and query: r_ij = scale k_j^T PROD_{t=j+1..i} (I - b_t w_t w_t^T) q_i

    Yang et al. 2025, arXiv 2505.16381
    """

    def __init__(self) -> None:
        self._construct("path")


class Wall(Encoding):
    """a forget gate per channel: r_ij = scale SUM_n q_in k_jn exp(SUM_{t=j+1..i} log f_tn)

    Wall attention, 2026
    """

    def __init__(self) -> None:
        self._construct("wall")


class Alibi(Encoding):
    """attention with linear biases: B = -slope_h |i - j|

    Press et al. 2021, arXiv 2108.12409

    ``slopes``: convention for head counts that are not powers of two
    ``bias_max``: the last slope is 2^-bias_max (in (0, 64])
    ``trainable``: train the slopes
    ``bidirectional``: penalise keys after the query too
    ``precision``: slopes in float64, or rounded to float32 as in Hugging Face
    """

    def __init__(
        self,
        *,
        slopes: Literal["standard", "mpt", "geometric"] = "standard",
        bias_max: float = 8,
        trainable: bool = False,
        bidirectional: bool = False,
        precision: Literal["exact", "hf"] = "exact",
    ) -> None:
        self._construct(
            "alibi",
            slopes=slopes,
            bias_max=bias_max,
            trainable=trainable,
            bidirectional=bidirectional,
            precision=precision,
        )


class T5(Encoding):
    """T5 relative position buckets: B = weight[bucket(j - i), h]

    Raffel et al. 2020, arXiv 1910.10683

    ``num_buckets``: entries of the table, both directions together (in [2, 1048576] and even)
    ``max_distance``: larger distances share the last bucket (in [2, 1e+15])
    ``bidirectional``: half the buckets for keys after the query
    ``init_std``: standard deviation of the initial weights (in [0, 100])
    """

    def __init__(
        self,
        *,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = False,
        init_std: float = 0.02,
    ) -> None:
        self._construct(
            "t5",
            num_buckets=num_buckets,
            max_distance=max_distance,
            bidirectional=bidirectional,
            init_std=init_std,
        )


class Kerple(Encoding):
    """kernelized relative positions: B = -p_h ln(1 + a_h |i - j|), or -a_h |i - j|^p_h

    Chi et al. 2022, arXiv 2205.09921

    ``kernel``: logarithmic or power
    """

    def __init__(self, *, kernel: Literal["log", "power"] = "log") -> None:
        self._construct("kerple", kernel=kernel)


class Fire(Encoding):
    """functional interpolation for relative positions: B = f(psi(i - j) / psi(max(i, L))), psi(x) = ln(c x + 1)

    Li et al. 2023, arXiv 2310.04418

    ``width``: hidden units of the network (in [1, 4096])
    ``init_c``: initial c of psi (in (0, 1e+06])
    ``init_threshold``: initial L; shorter rows are normalised by it (in (0, 1e+15])
    """

    def __init__(self, *, width: int = 32, init_c: float = 0.1, init_threshold: float = 512) -> None:
        self._construct("fire", width=width, init_c=init_c, init_threshold=init_threshold)


class Relative(Encoding):
    """learned clipped relative bias: B = weight[h, clip(i - j)]

    Shaw et al. 2018, arXiv 1803.02155

    ``max_distance``: farther keys share the last entry (in [1, 16777216])
    ``bidirectional``: entries for keys after the query
    ``init_std``: standard deviation of the initial weights (in [0, 100])
    """

    def __init__(self, *, max_distance: int = 128, bidirectional: bool = False, init_std: float = 0) -> None:
        self._construct("relative", max_distance=max_distance, bidirectional=bidirectional, init_std=init_std)


class Relative2d(Encoding):
    """learned 2D relative bias: B = weight[h, clip(y_i - y_j), clip(x_i - x_j)]

    Liu et al. 2021, arXiv 2103.14030

    ``height``: rows of the grid; farther tokens share the last entry (in [1, 4096])
    ``width``: columns of the grid, and of an image whose tokens have one position (in [1, 4096])
    ``separable``: a table per axis instead of one for both
    ``init_std``: standard deviation of the initial weights (in [0, 100])
    """

    def __init__(
        self,
        *,
        height: int = 14,
        width: int = 14,
        separable: bool = False,
        init_std: float = 0,
    ) -> None:
        self._construct("relative_2d", height=height, width=width, separable=separable, init_std=init_std)


class Cope(Encoding):
    """contextual position encoding: p_ij = SUM_{t=j..i} sigmoid(r_it); c_ij = q_i . e[p_ij], interpolated

    Golovneva et al. 2024, arXiv 2405.18719

    ``npos_max``: positions that are told apart (in [2, 65536])
    ``logit_scale``: leave the position logit as it is, or divide it by sqrt(head_dim)
    ``gates_see_bias``: gates from the score with biases instead of the plain one
    ``gate_source``: what the gates compare the query with; open: every key counts as one
    ``share_layers``: one table for all layers of a model
    ``variant``: a learned table, or a slope times the position
    """

    def __init__(
        self,
        *,
        npos_max: int = 64,
        logit_scale: Literal["none", "sqrt_dim"] = "none",
        gates_see_bias: bool = False,
        gate_source: Literal["key", "separate", "value", "open"] = "key",
        share_layers: bool = False,
        variant: Literal["interpolate", "alibi"] = "interpolate",
    ) -> None:
        self._construct(
            "cope",
            npos_max=npos_max,
            logit_scale=logit_scale,
            gates_see_bias=gates_see_bias,
            gate_source=gate_source,
            share_layers=share_layers,
            variant=variant,
        )


class RelativeQuery(Encoding):
    """a vector per distance, times the query or the key: s_ij = r_ij + <u_i, P[:, i - j]>

    Shaw et al. 2018, arXiv 1803.02155

    ``extent``: distances with an entry (in [1, 1048576])
    ``beyond``: what farther keys get: nothing, or the last
    ``source``: what is multiplied with the entries
    ``rank``: numbers per token and head; source=input (in [1, 65536])
    ``bidirectional``: entries for keys after the query
    ``per_head``: a table for each head
    ``scaling``: factor of the term: that of the scores, or 1; auto: by source
    ``init_std``: standard deviation of the initial weights (in [0, 100])
    ``side``: whose vector is multiplied with the entries
    ``buckets``: an entry per distance, or far distances in logarithmic buckets
    ``max_distance``: distance of the last bucket, plus 1; buckets=log (in [2, 16777216])
    ``vectors``: two vectors per head, added to the query: Transformer-XL
    """

    def __init__(
        self,
        *,
        extent: int = 128,
        beyond: Literal["zero", "clip"] = "zero",
        source: Literal["query", "input"] = "query",
        rank: int = 16,
        bidirectional: bool = False,
        per_head: bool = False,
        scaling: Literal["auto", "scores", "none"] = "auto",
        init_std: float = 0.02,
        side: Literal["query", "key"] = "query",
        buckets: Literal["none", "log"] = "none",
        max_distance: int = 512,
        vectors: bool = False,
    ) -> None:
        self._construct(
            "relative_query",
            extent=extent,
            beyond=beyond,
            source=source,
            rank=rank,
            bidirectional=bidirectional,
            per_head=per_head,
            scaling=scaling,
            init_std=init_std,
            side=side,
            buckets=buckets,
            max_distance=max_distance,
            vectors=vectors,
        )


class GrapeAp(Encoding):
    """path penalties weighted by the query: s_ij = r_ij + m_h SUM_{t=j+1..i} ln sigmoid(s <p_i, e_t>)

    Zhang et al. 2025, arXiv 2512.07805

    ``rank``: numbers per token and head (in [1, 65536])
    ``scale``: factor of the products; 0: 1 / sqrt(rank) (in [0, 1000])
    ``separate``: a separate input e for the tokens between key and query
    """

    def __init__(self, *, rank: int = 16, scale: float = 0, separate: bool = False) -> None:
        self._construct("grape_ap", rank=rank, scale=scale, separate=separate)


class Fox(Encoding):
    """forget gates: s_ij = r_ij + SUM_{t=j+1..i} log f_t

    Lin et al. 2025, arXiv 2503.02130

    ``scaled``: multiply the term by the scale of the scores, as PaTH's code does
    ``prune``: skip keys whose weight is below 5e-5 of the row
    ``bidirectional``: also decay keys after the query, by the tokens between
    """

    def __init__(self, *, scaled: bool = False, prune: bool = False, bidirectional: bool = False) -> None:
        self._construct("fox", scaled=scaled, prune=prune, bidirectional=bidirectional)


class KeyBias(Encoding):
    """a bias per key: s_ij = r_ij + b_j"""

    def __init__(self) -> None:
        self._construct("key_bias")


class Sink(Encoding):
    """attention sink: p_ij = exp(s_ij) / (SUM_j exp(s_ij) + exp(z_h))

    OpenAI 2025, arXiv 2508.10925

    ``init``: value of every logit before training (in [-1000, 1000])
    """

    def __init__(self, *, init: float = 0) -> None:
        self._construct("sink", init=init)


class Softcap(Encoding):
    """logit soft-capping: s_ij -> cap tanh(s_ij / cap)

    Gemma Team 2024, arXiv 2408.00118

    ``cap``: bound of the scores (in [0.001, 1e+06])
    """

    def __init__(self, *, cap: float = 50) -> None:
        self._construct("softcap", cap=cap)


class StickBreaking(Encoding):
    """stick-breaking attention: A_ij = sigmoid(s_ij) PROD_{j<t<i} (1 - sigmoid(s_it))

    Tan et al. 2024, arXiv 2410.17980
    """

    def __init__(self) -> None:
        self._construct("stick_breaking")
