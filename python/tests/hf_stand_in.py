"""A small Llama as posenc.patch finds it in transformers, for machines without that package.

Names, signatures and the cache are those of transformers 5; attention is eager, or what the registry has by the name in
the config. `installed` puts modules in place of transformers' for the registries that patch imports, and for the
classes that pages of the documentation load models with.
"""

import contextlib
import sys
import types

import torch
from torch import nn


class Registry:
    """AttentionInterface and AttentionMaskInterface."""

    known = {}

    @classmethod
    def register(cls, name, function):
        cls.known[name] = function


class Masks(Registry):
    known = {}


def causal_mask_function(batch_idx, head_idx, q_idx, kv_idx):
    return kv_idx <= q_idx


causal_mask_function.__module__ = "transformers.masking_utils"


def modules():
    """By the names under which they are imported."""
    package, masking = types.ModuleType("transformers"), types.ModuleType("masking_utils")
    package.AttentionInterface = Registry
    package.AutoModelForCausalLM, package.AutoTokenizer = AutoModelForCausalLM, AutoTokenizer
    masking.AttentionMaskInterface = Masks
    return {"transformers": package, "transformers.masking_utils": masking}


@contextlib.contextmanager
def installed():
    fakes = modules()
    before = {name: sys.modules.get(name) for name in fakes}
    sys.modules.update(fakes)
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


class Config:
    model_type = "llama"
    _attn_implementation_internal = "eager"

    def __init__(self, **fields):
        self.hidden_size, self.num_attention_heads, self.num_key_value_heads = 32, 4, 2
        self.vocab_size, self.num_hidden_layers, self.rope_theta = 61, 2, 10000.0
        self.max_position_embeddings, self.head_dim = 64, 8
        self.__dict__.update(fields)

    @property
    def _attn_implementation(self):
        return self._attn_implementation_internal

    def to_dict(self):
        return {"model_type": self.model_type, **self.__dict__}


class DynamicCache:
    """Keys and values of each layer, grown by concatenation."""

    def __init__(self):
        self.layers = {}

    def get_seq_length(self, layer=0):
        return self.layers[layer][0].shape[2] if layer in self.layers else 0

    def update(self, k, v, layer):
        if layer in self.layers:
            k, v = (torch.cat(pair, 2) for pair in zip(self.layers[layer], (k, v)))
        self.layers[layer] = (k, v)
        return k, v

    def change(self, function):
        """What a cache of transformers does to keys and values alike: reorder, crop, repeat, select."""
        self.layers = {n: tuple(function(x) for x in both) for n, both in self.layers.items()}


class SlidingCache(DynamicCache):
    """Keeps the last window - 1 keys between calls, as the cache of layers with a window does."""

    def __init__(self, window):
        super().__init__()
        self.window, self.seen = window, {}

    def get_seq_length(self, layer=0):
        return self.seen.get(layer, 0)

    def update(self, k, v, layer):
        self.seen[layer] = self.get_seq_length(layer) + k.shape[2]
        k, v = super().update(k, v, layer)
        self.layers[layer] = (k[:, :, 1 - self.window :], v[:, :, 1 - self.window :])
        return k, v


class StaticLayer:
    """Buffers for a number of tokens; updates return all of them, also the unused ones."""

    def __init__(self, tokens):
        self.tokens, self.length, self.keys, self.values = tokens, 0, None, None

    def allocate(self, batch, heads, k_channels, v_channels):
        self.keys = torch.zeros(batch, heads, self.tokens, k_channels)
        self.values = torch.zeros(batch, heads, self.tokens, v_channels)

    def update(self, k, v):
        if self.keys is None:
            self.allocate(*k.shape[:2], k.shape[3], v.shape[3])
        places = torch.arange(self.length, self.length + k.shape[2])
        self.length += k.shape[2]
        self.keys.index_copy_(2, places, k)
        self.values.index_copy_(2, places, v)
        return self.keys, self.values


class StaticCache:
    def __init__(self, layers=2, tokens=64, kind=StaticLayer):
        self.tokens, self.layers = tokens, [kind(tokens) for _ in range(layers)]

    def get_seq_length(self, layer=0):
        return self.layers[layer].length

    def update(self, k, v, layer):
        return self.layers[layer].update(k, v)


def _turn(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class LlamaRotaryEmbedding(nn.Module):
    attention_scaling = 1.0

    def __init__(self, config):
        super().__init__()
        places = torch.arange(0, config.head_dim, 2) / config.head_dim
        self.register_buffer("inv_freq", config.rope_theta**-places, persistent=False)

    def forward(self, x, position_ids):
        angles = position_ids[..., None].float() * self.inv_freq
        both = torch.cat([angles, angles], -1)
        return both.cos(), both.sin()


class LlamaAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx, self.head_dim = config, layer_idx, config.head_dim
        self.scaling, self.attention_dropout = config.head_dim**-0.5, 0.0
        self.sliding_window = getattr(config, "sliding_window", None)
        width, heads = config.hidden_size, config.num_attention_heads
        self.num_key_value_groups = heads // config.num_key_value_heads
        self.q_proj = nn.Linear(width, heads * self.head_dim)
        self.k_proj = nn.Linear(width, config.num_key_value_heads * self.head_dim)
        self.v_proj = nn.Linear(width, config.num_key_value_heads * self.head_dim)
        self.o_proj = nn.Linear(heads * self.head_dim, width)

    def forward(self, hidden_states, position_embeddings, attention_mask, past_key_values=None, **_):
        x = hidden_states
        shape = (*x.shape[:-1], -1, self.head_dim)
        q, k, v = (p(x).view(shape).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        cos, sin = (table[:, None] for table in position_embeddings)
        q, k = _turn(q, cos, sin), _turn(k, cos, sin)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        attend = Registry.known.get(self.config._attn_implementation)
        if attend is not None:
            out, weights = attend(self, q, k, v, attention_mask, scaling=self.scaling)
            return self.o_proj(out.flatten(2)), weights
        k, v = (y.repeat_interleave(q.shape[1] // y.shape[1], 1) for y in (k, v))
        weights = (q @ k.transpose(-1, -2) * self.scaling + attention_mask).softmax(-1)
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2)), weights


class LlamaDecoderLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = LlamaAttention(config, layer_idx)
        self.mlp = nn.Sequential(
            nn.Linear(config.hidden_size, 48), nn.GELU(), nn.Linear(48, config.hidden_size)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(config.hidden_size) for _ in range(2))

    def forward(self, x, **options):
        x = x + self.self_attn(hidden_states=self.norms[0](x), **options)[0]
        return x + self.mlp(self.norms[1](x))


class LlamaModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            LlamaDecoderLayer(config, i) for i in range(config.num_hidden_layers)
        )
        self.rotary_emb = LlamaRotaryEmbedding(config)

    def forward(self, ids, mask=None, position_ids=None, cache=None):
        x = self.embed_tokens(ids)
        past = cache.get_seq_length() if cache is not None else 0
        if position_ids is None:
            position_ids = torch.arange(past, past + ids.shape[1])[None]
        visible = self._mask(ids, mask, past, cache)
        tables = self.rotary_emb(x, position_ids)
        for layer in self.layers:
            x = layer(
                x, position_embeddings=tables, attention_mask=visible, past_key_values=cache
            )
        return x

    def _mask(self, ids, padding, past, cache):
        """What transformers.masking_utils makes for the implementation of the config."""
        batch, queries = ids.shape
        kept = min(past, getattr(cache, "window", past + 1) - 1)
        offset, keys = past - kept, getattr(cache, "tokens", kept + queries)
        if self.config._attn_implementation != "eager":
            make = Masks.known[self.config._attn_implementation]
            return make(
                batch_size=batch,
                q_length=queries,
                kv_length=keys,
                q_offset=past,
                kv_offset=offset,
                mask_function=causal_mask_function,
                attention_mask=padding,
                config=self.config,
            )
        places = torch.arange(past, past + queries)[:, None]
        seen = (torch.arange(offset, offset + keys) <= places).expand(batch, 1, queries, keys)
        if padding is not None:
            seen = seen & padding[:, None, None, offset : offset + keys].bool()
        return torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)


class LlamaForCausalLM(nn.Module):
    def __init__(self, **fields):
        super().__init__()
        self.config = Config(**fields)
        self.model = LlamaModel(self.config)
        self.lm_head = nn.Linear(self.config.hidden_size, self.config.vocab_size, bias=False)

    def forward(self, ids, mask=None, position_ids=None, cache=None):
        return self.lm_head(self.model(ids, mask, position_ids, cache))

    def set_attn_implementation(self, name):
        if name not in ("eager", *Registry.known):
            raise ValueError(f"attn_implementation {name!r} is not registered")
        self.config._attn_implementation_internal = name

    @torch.no_grad()
    def generate(self, ids, mask, new_tokens, chunks=(), cache=None):
        """Greedy. Returns the tokens and the logits of each step; the prompt may go in chunks."""
        cache = DynamicCache() if cache is None else cache
        steps, first = [], 0
        for _ in range(new_tokens):
            positions = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 0)
            ends = [first + n for n in chunks] if first == 0 else []
            for end in [*ends, ids.shape[1]]:
                given = (ids[:, first:end], mask[:, :end], positions[:, first:end])
                logits, first = self(*given, cache=cache)[:, -1], end
            steps.append(logits)
            ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
        return ids, steps


class AutoModelForCausalLM:
    @staticmethod
    def from_pretrained(_, attn_implementation="eager"):
        model = LlamaForCausalLM().eval()
        model.set_attn_implementation(attn_implementation)
        return model


class AutoTokenizer:
    """Words, numbered by their letters."""

    @classmethod
    def from_pretrained(cls, _):
        return cls()

    def __call__(self, text):
        self.words = {sum(map(ord, word)) % 61: word for word in text.split()}
        return {"input_ids": [sum(map(ord, word)) % 61 for word in text.split()]}

    def decode(self, ids):
        return " ".join(self.words[i] for i in ids)


for kind in (LlamaAttention, LlamaRotaryEmbedding):
    kind.__module__ = "transformers.models.llama.modeling_llama"
