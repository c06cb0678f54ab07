"""Schedules of a rotation's frequencies, and its axes: values for the fields of :class:`posenc.Rope`.

Made by tools/python_constructors.py from the catalogue of the library."""

from __future__ import annotations

from typing import Literal, Optional, Sequence, Union

from posenc._construct import Axes, Schedule

__all__ = [
    "Axial",
    "DefaultFrequencies",
    "Dynamic",
    "Learnable",
    "Linear",
    "LinearIndex",
    "Llama3",
    "Longrope",
    "Mrope",
    "MropeInterleaved",
    "Ntk",
    "Proportional",
    "SingleAxis",
    "Yarn",
]


class DefaultFrequencies(Schedule):
    """the original frequencies: theta^(-2i/d)

    Su et al. 2021, arXiv 2104.09864
    """

    def __init__(self) -> None:
        self._construct("default")


class Linear(Schedule):
    """linear position interpolation: theta^(-2i/d) / factor

    Chen et al. 2023, arXiv 2306.15595

    ``factor``: how many times longer than trained (in [1, 1e+09])
    """

    def __init__(self, factor: float) -> None:
        self._construct("linear", factor=factor)


class Ntk(Schedule):
    """NTK-aware base change: (theta factor^(d/(d-2)))^(-2i/d)

    Peng et al. 2023, arXiv 2309.00071, section 3.1

    ``factor``: how many times longer than trained (in [1, 1e+09])
    """

    def __init__(self, factor: float) -> None:
        self._construct("ntk", factor=factor)


class Dynamic(Schedule):
    """dynamic NTK: the base follows the length: theta' = theta (factor n/max - (factor-1))^(d/(d-2))

    Peng et al. 2023, arXiv 2309.00071, section 3.3

    ``factor``: strength of the change (in [1, 1e+09])
    ``max_position_embeddings``: the trained length (in [1, 1e+15])
    ``length``: use the current length (hf), or always factor * max (vllm)
    """

    def __init__(
        self,
        factor: float,
        max_position_embeddings: int,
        *,
        length: Literal["current", "fixed"] = "current",
    ) -> None:
        self._construct(
            "dynamic",
            factor=factor,
            max_position_embeddings=max_position_embeddings,
            length=length,
        )


class Yarn(Schedule):
    """YaRN: interpolation by frequency, and a magnitude: base/factor ramp(i) + base (1 - ramp(i))

    Peng et al. 2023, arXiv 2309.00071

    ``factor``: how many times longer than trained (in [1, 1e+09])
    ``original_max_position_embeddings``: the trained length (in [1, 1e+15])
    ``beta_fast``: pairs with more rotations are unchanged (in (0, 1e+09])
    ``beta_slow``: pairs with fewer rotations are interpolated (in (0, 1e+09])
    ``truncate``: round the ramp's ends to whole pairs
    ``attention_factor``: explicit magnitude of cos and sin (in (0, 1e+06])
    ``attn_factor``: vLLM's multiplier of the magnitude (in (0, 1e+06])
    ``mscale``: DeepSeek's numerator; 0 means absent (in [0, 1e+06])
    ``mscale_all_dim``: DeepSeek's denominator; 0 means absent (in [0, 1e+06])
    ``magnitude``: rule for the magnitude: replace (hf), multiply or ratio (vllm), unit_ratio (llama.cpp)
    ``softmax_mscale``: also multiply the softmax scale by g(factor, mscale_all_dim)^2 (DeepSeek)
    """

    def __init__(
        self,
        factor: float,
        original_max_position_embeddings: int,
        *,
        beta_fast: float = 32,
        beta_slow: float = 1,
        truncate: bool = True,
        attention_factor: Optional[float] = None,
        attn_factor: Optional[float] = None,
        mscale: Optional[float] = None,
        mscale_all_dim: Optional[float] = None,
        magnitude: Literal["replace", "multiply", "ratio", "unit_ratio"] = "replace",
        softmax_mscale: bool = False,
    ) -> None:
        self._construct(
            "yarn",
            factor=factor,
            original_max_position_embeddings=original_max_position_embeddings,
            beta_fast=beta_fast,
            beta_slow=beta_slow,
            truncate=truncate,
            attention_factor=attention_factor,
            attn_factor=attn_factor,
            mscale=mscale,
            mscale_all_dim=mscale_all_dim,
            magnitude=magnitude,
            softmax_mscale=softmax_mscale,
        )


class Longrope(Schedule):
    """LongRoPE: a searched factor per pair: theta^(-2i/d) / ext_i

    Ding et al. 2024, arXiv 2402.13753

    ``short_factor``: one per pair, up to the original length (in (0, 1e+09])
    ``long_factor``: one per pair, beyond the original length (in (0, 1e+09])
    ``original_max_position_embeddings``: the trained length (in [2, 1e+15])
    ``max_position_embeddings``: the extended length; sets factor if that is absent (in [0, 1e+15])
    ``factor``: extended over trained length (in [1, 1e+09])
    ``attention_factor``: explicit magnitude of cos and sin (in (0, 1e+06])
    ``switch_by``: length that decides: current (hf), maximum (vllm), context (llama.cpp)
    """

    def __init__(
        self,
        short_factor: Union[float, Sequence[float]],
        long_factor: Union[float, Sequence[float]],
        original_max_position_embeddings: int,
        *,
        max_position_embeddings: int = 0,
        factor: Optional[float] = None,
        attention_factor: Optional[float] = None,
        switch_by: Literal["current", "maximum", "context"] = "current",
    ) -> None:
        self._construct(
            "longrope",
            short_factor=short_factor,
            long_factor=long_factor,
            original_max_position_embeddings=original_max_position_embeddings,
            max_position_embeddings=max_position_embeddings,
            factor=factor,
            attention_factor=attention_factor,
            switch_by=switch_by,
        )


class Llama3(Schedule):
    """Llama 3.1: interpolation by wavelength: base, base/factor, or a blend between two wavelengths

    Llama team 2024, arXiv 2407.21783

    ``factor``: how many times longer than trained (in [1, 1e+09])
    ``low_freq_factor``: wavelengths above original/this are interpolated (in (0, 1e+09])
    ``high_freq_factor``: wavelengths below original/this are unchanged (in (0, 1e+09])
    ``original_max_position_embeddings``: the trained length (in [1, 1e+15])
    """

    def __init__(
        self,
        factor: float,
        low_freq_factor: float,
        high_freq_factor: float,
        original_max_position_embeddings: int,
    ) -> None:
        self._construct(
            "llama3",
            factor=factor,
            low_freq_factor=low_freq_factor,
            high_freq_factor=high_freq_factor,
            original_max_position_embeddings=original_max_position_embeddings,
        )


class Proportional(Schedule):
    """a part of the pairs, spaced over the whole head: theta^(-2i/head_dim) / factor, then 0

    Hugging Face transformers 5, rope_type proportional

    ``factor``: how many times longer than trained (in [1, 1e+09])
    ``partial_rotary_factor``: fraction of the pairs that are rotated (in (0, 1])
    """

    def __init__(self, *, factor: float = 1, partial_rotary_factor: float = 1) -> None:
        self._construct("proportional", factor=factor, partial_rotary_factor=partial_rotary_factor)


class LinearIndex(Schedule):
    """harmonic frequencies: 1/(1 + 2i)

    a variant of Su et al. 2021, arXiv 2104.09864
    """

    def __init__(self) -> None:
        self._construct("linear-index")


class Learnable(Schedule):
    """trained frequencies: theta^(-2i/d) exp(alpha_i)

    a variant of Su et al. 2021, arXiv 2104.09864
    """

    def __init__(self) -> None:
        self._construct("learnable")


class SingleAxis(Axes):
    """one position per token"""

    def __init__(self) -> None:
        self._construct("single")


class Axial(Axes):
    """a block of pairs per axis

    ``axes``: how many; 0 means one per section, or 2 (in [0, 16])
    ``sections``: pairs per axis; an even split where absent (in [1, 1048576])
    """

    def __init__(self, *, axes: int = 0, sections: Union[int, Sequence[int]] = ()) -> None:
        self._construct("axial", axes=axes, sections=sections)


class Mrope(Axes):
    """M-RoPE, sections in chunks

    ``sections``: pairs per axis, such as [16, 24, 24] (in [0, 1048576])
    """

    def __init__(self, sections: Union[int, Sequence[int]]) -> None:
        self._construct("mrope", sections=sections)


class MropeInterleaved(Axes):
    """M-RoPE, sections interleaved

    ``sections``: pairs per axis, such as [24, 20, 20] (in [0, 1048576])
    """

    def __init__(self, sections: Union[int, Sequence[int]]) -> None:
        self._construct("mrope_interleaved", sections=sections)
