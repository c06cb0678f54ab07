"""A small DeBERTa v2 as posenc.patch finds it in transformers, for machines without that package.

Names and signatures are those of transformers 5; the formulas are those of the paper, score by score.
"""

import math

import torch
from torch import nn

from hf_stand_in import Config as LlamaConfig


class Config(LlamaConfig):
    model_type = "deberta-v2"

    def __init__(self, **fields):
        super().__init__()
        self.relative_attention, self.pos_att_type = True, ["c2p", "p2c"]
        self.share_att_key, self.position_buckets, self.max_relative_positions = True, 8, 64
        self.norm_rel_ebd, self.hidden_dropout_prob, self.attention_probs_dropout_prob = "none", 0, 0
        self.__dict__.update(fields)

    @property
    def span(self):
        return self.position_buckets if self.position_buckets > 0 else self.max_relative_positions


def relative_positions(config, tokens):
    """The bucket of each query and key, [1, tokens, tokens]; logarithms are float32."""
    places = torch.arange(tokens)
    distance = places[:, None] - places
    middle = config.position_buckets // 2
    if middle > 0:
        ratio = torch.tensor((config.max_relative_positions - 1) / middle).log()
        steps = ((distance.abs().clamp(min=1) / middle).log() / ratio * (middle - 1)).ceil() + middle
        distance = torch.where(distance.abs() <= middle, distance, steps.long() * distance.sign())
    return distance[None]


class DisentangledSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = width // config.num_attention_heads
        self.query_proj, self.key_proj, self.value_proj = (nn.Linear(width, width) for _ in range(3))
        self.share_att_key, self.pos_att_type = config.share_att_key, config.pos_att_type
        self.relative_attention = config.relative_attention
        if self.relative_attention:
            self.position_buckets = config.position_buckets
            self.max_relative_positions = config.max_relative_positions
            self.pos_ebd_size = config.span
            self.pos_dropout = nn.Dropout(config.hidden_dropout_prob)
            if not self.share_att_key and "c2p" in self.pos_att_type:
                self.pos_key_proj = nn.Linear(width, width)
            if not self.share_att_key and "p2c" in self.pos_att_type:
                self.pos_query_proj = nn.Linear(width, width)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def heads(self, x):
        return x.view(*x.shape[:-1], self.num_attention_heads, -1).transpose(-3, -2)

    def forward(
        self,
        hidden_states,
        attention_mask,
        output_attentions=False,
        query_states=None,
        relative_pos=None,
        rel_embeddings=None,
    ):
        queries = hidden_states if query_states is None else query_states
        q, k = self.heads(self.query_proj(queries)), self.heads(self.key_proj(hidden_states))
        v = self.heads(self.value_proj(hidden_states))
        scores = q @ k.transpose(-1, -2)
        if self.relative_attention:
            scores = scores + self.of_distances(q, k, relative_pos, self.pos_dropout(rel_embeddings))
        parts = 1 + ("c2p" in self.pos_att_type) + ("p2c" in self.pos_att_type)
        scores = scores / math.sqrt(self.attention_head_size * parts)
        scores = scores.masked_fill(~attention_mask.bool(), torch.finfo(scores.dtype).min)
        weights = self.dropout(scores.softmax(-1))
        out = (weights @ v).transpose(1, 2).flatten(2)
        return out, weights if output_attentions else None

    def of_distances(self, q, k, relative_pos, embeddings):
        span, total = self.pos_ebd_size, 0
        shape = (*q.shape[:3], k.shape[2])
        relative_pos = relative_pos.reshape(relative_pos.shape[-2:])
        if "c2p" in self.pos_att_type:
            project = self.key_proj if self.share_att_key else self.pos_key_proj
            row = (relative_pos + span).clamp(0, 2 * span - 1)
            products = q @ self.heads(project(embeddings)).transpose(-1, -2)
            total = total + products.gather(-1, row.expand(shape))
        if "p2c" in self.pos_att_type:
            project = self.query_proj if self.share_att_key else self.pos_query_proj
            row = (span - relative_pos).clamp(0, 2 * span - 1)  # [key, query]
            products = k @ self.heads(project(embeddings)).transpose(-1, -2)
            total = total + products.gather(-1, row.expand(shape)).transpose(-1, -2)
        return total


class DebertaV2Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self = DisentangledSelfAttention(config)
        self.dense, self.norm = nn.Linear(config.hidden_size, config.hidden_size), nn.LayerNorm(32)

    def forward(self, x, mask, output_attentions=False, query_states=None, **tables):
        out, weights = self.self(x, mask, output_attentions, query_states=query_states, **tables)
        return self.norm(self.dense(out) + (x if query_states is None else query_states)), weights


class DebertaV2Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.layer = nn.ModuleList(
            DebertaV2Attention(config) for _ in range(config.num_hidden_layers)
        )
        if config.relative_attention:
            self.rel_embeddings = nn.Embedding(2 * config.span, config.hidden_size)
        if config.norm_rel_ebd == "layer_norm":
            self.LayerNorm = nn.LayerNorm(config.hidden_size)

    def forward(self, x, mask, output_attentions=False, query_states=None, relative_pos=None):
        if mask.dim() == 2:
            mask = mask[:, None, None] * mask[:, None, :, None]
        tables = {}
        if self.config.relative_attention:
            if relative_pos is None:
                relative_pos = relative_positions(self.config, x.shape[1])
            rows = self.rel_embeddings.weight
            rows = self.LayerNorm(rows) if hasattr(self, "LayerNorm") else rows
            tables = dict(relative_pos=relative_pos, rel_embeddings=rows)
        all_weights = []
        for layer in self.layer:
            x, weights = layer(x, mask, output_attentions, query_states=query_states, **tables)
            all_weights.append(weights)
        return x, all_weights


class DebertaV2ForMaskedLM(nn.Module):
    def __init__(self, **fields):
        super().__init__()
        self.config = Config(**fields)
        self.embeddings = nn.Embedding(self.config.vocab_size, self.config.hidden_size)
        self.encoder = DebertaV2Encoder(self.config)

    def forward(self, ids, mask=None, **options):
        mask = torch.ones(ids.shape) if mask is None else mask
        x, weights = self.encoder(self.embeddings(ids), mask, **options)
        return x @ self.embeddings.weight.t(), weights


DisentangledSelfAttention.__module__ = "transformers.models.deberta_v2.modeling_deberta_v2"
