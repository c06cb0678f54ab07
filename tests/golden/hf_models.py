#!/usr/bin/env python3
"""Tiny random models of five Hugging Face families, and their logits by plain float64 numpy.

Writes tests/golden/hf_models/<family>/{config.json, *.safetensors, logits.json}. Every formula here is
written from the papers and from the model code of transformers, without any of posenc's: the lab must load
each folder and compute the same logits (tests/train/init_weights_test.cc). The weights are drawn from a fixed
seed, so running it again gives the same files. python/tests/hf_lab_record.py compares the same folders with
transformers where it is installed.
"""

import json
import math
import struct
import zlib
from pathlib import Path

import numpy as np

OUT = Path(__file__).parent / "hf_models"
TOKENS = [3, 17, 5, 5, 29, 0, 11, 31, 8, 2, 23, 14, 19, 3, 30, 7]


# --- weights -----------------------------------------------------------------------------------------


def draw(name, shape, scale=None, center=0.0):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    scale = 1.2 / math.sqrt(shape[-1]) if scale is None else scale
    return (center + scale * rng.standard_normal(shape)).astype(np.float32)


def rounded(array, dtype):
    """The float32 values that storage in `dtype` keeps."""
    if dtype == "F16":
        return array.astype(np.float16).astype(np.float32)
    if dtype == "BF16":
        bits = array.view(np.uint32).astype(np.uint64)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return bits.astype(np.uint32).view(np.float32)
    return array


def stored(array, dtype):
    if dtype == "F16":
        return array.astype(np.float16).tobytes()
    if dtype == "BF16":
        return (array.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    if dtype == "BOOL":
        return array.astype(np.uint8).tobytes()
    return array.astype(np.float32).tobytes()


def write_safetensors(path, tensors):
    header, blobs, at = {}, [], 0
    for name, (array, dtype) in tensors.items():
        blob = stored(np.ascontiguousarray(array), dtype)
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


class Weights:
    """Tensors by name, rounded to the type in which they are stored."""

    def __init__(self, dtype):
        self.dtype, self.tensors = dtype, {}

    def __call__(self, name, shape, scale=None, center=0.0):
        if name not in self.tensors:
            self.tensors[name] = rounded(draw(name, shape, scale, center), self.dtype)
        return self.tensors[name].astype(np.float64)

    def norm(self, name, dim):
        return self(name, (dim,), 0.2, 1.0)

    def bias(self, name, dim):
        return self(name, (dim,), 0.3)


# --- parts -------------------------------------------------------------------------------------------


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def layer_norm(x, weight, bias, eps):
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered * centered).mean(-1, keepdims=True) + eps) * weight + bias


def silu(x):
    return x / (1.0 + np.exp(-x))


def gelu(x):
    return x * 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def gelu_new(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def base_frequencies(theta, dim):
    return theta ** (-np.arange(0, dim, 2) / dim)


def llama3_frequencies(theta, dim, scaling):
    old = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    result = []
    for f in base_frequencies(theta, dim):
        wave = 2 * math.pi / f
        if wave < old / high:
            result.append(f)
        elif wave > old / low:
            result.append(f / scaling["factor"])
        else:
            smooth = (old / wave - low) / (high - low)
            result.append((1 - smooth) * f / scaling["factor"] + smooth * f)
    return np.array(result), 1.0


def yarn_frequencies(theta, dim, scaling):
    old, factor = scaling["original_max_position_embeddings"], scaling["factor"]

    def correction(rotations):
        return dim * math.log(old / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(correction(scaling.get("beta_fast", 32))), 0)
    high = min(math.ceil(correction(scaling.get("beta_slow", 1))), dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
    base = base_frequencies(theta, dim)
    return base / factor * ramp + base * (1 - ramp), 0.1 * math.log(factor) + 1.0


def rotate(x, frequencies, magnitude):
    """x [heads, tokens, dim]; the first 2 * len(frequencies) channels, in halves."""
    n = len(frequencies)
    angle = np.arange(x.shape[1])[:, None] * frequencies
    cos, sin = np.cos(angle) * magnitude, np.sin(angle) * magnitude
    a, b, rest = x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)


def heads_of(x, heads):
    return x.reshape(x.shape[0], heads, -1).transpose(1, 0, 2)


def attend(q, k, v):
    """q [heads, tokens, dim], k and v of fewer heads; returns [tokens, heads * dim]."""
    group = q.shape[0] // k.shape[0]
    k, v = np.repeat(k, group, 0), np.repeat(v, group, 0)
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    tokens = scores.shape[-1]
    scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights @ v).transpose(1, 0, 2).reshape(tokens, -1)


# --- families ----------------------------------------------------------------------------------------


def llama_logits(config, w):
    """LlamaForCausalLM, Qwen2ForCausalLM and Qwen3ForCausalLM."""
    family = config["model_type"]
    dim, heads = config["hidden_size"], config["num_attention_heads"]
    kv, hd = config["num_key_value_heads"], config.get("head_dim", dim // heads)
    eps, inter = config["rms_norm_eps"], config["intermediate_size"]
    scaling = config.get("rope_scaling")
    if scaling is None:
        frequencies, magnitude = base_frequencies(config["rope_theta"], hd), 1.0
    elif scaling["rope_type"] == "llama3":
        frequencies, magnitude = llama3_frequencies(config["rope_theta"], hd, scaling)
    else:
        frequencies, magnitude = yarn_frequencies(config["rope_theta"], hd, scaling)
    embedding = w("model.embed_tokens.weight", (config["vocab_size"], dim), 0.7)
    x = embedding[TOKENS]
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        y = rms_norm(x, w.norm(p + "input_layernorm.weight", dim), eps)

        def project(name, width):
            out = y @ w(f"{p}self_attn.{name}.weight", (width, dim)).T
            return out + w.bias(f"{p}self_attn.{name}.bias", width) if family == "qwen2" else out

        q, k = heads_of(project("q_proj", heads * hd), heads), heads_of(project("k_proj", kv * hd), kv)
        v = heads_of(project("v_proj", kv * hd), kv)
        if family == "qwen3":
            q = rms_norm(q, w.norm(p + "self_attn.q_norm.weight", hd), eps)
            k = rms_norm(k, w.norm(p + "self_attn.k_norm.weight", hd), eps)
        out = attend(rotate(q, frequencies, magnitude), rotate(k, frequencies, magnitude), v)
        x = x + out @ w(p + "self_attn.o_proj.weight", (dim, heads * hd)).T
        y = rms_norm(x, w.norm(p + "post_attention_layernorm.weight", dim), eps)
        gate = y @ w(p + "mlp.gate_proj.weight", (inter, dim)).T
        up = y @ w(p + "mlp.up_proj.weight", (inter, dim)).T
        x = x + (silu(gate) * up) @ w(p + "mlp.down_proj.weight", (dim, inter)).T
    x = rms_norm(x, w.norm("model.norm.weight", dim), eps)
    if config["tie_word_embeddings"]:
        return x @ embedding.T
    return x @ w("lm_head.weight", (config["vocab_size"], dim)).T


def neox_logits(config, w):
    """GPTNeoXForCausalLM: one projection holds query, key and value of head 0, then of head 1, ..."""
    dim, heads, eps = config["hidden_size"], config["num_attention_heads"], config["layer_norm_eps"]
    hd, inter = dim // heads, config["intermediate_size"]
    frequencies = base_frequencies(config["rotary_emb_base"], int(hd * config["rotary_pct"]))
    x = w("gpt_neox.embed_in.weight", (config["vocab_size"], dim), 0.7)[TOKENS]

    def norm(name, y):
        return layer_norm(y, w.norm(name + ".weight", dim), w.bias(name + ".bias", dim), eps)

    def dense(name, y, width):
        return y @ w(name + ".weight", (width, y.shape[-1])).T + w.bias(name + ".bias", width)

    for layer in range(config["num_hidden_layers"]):
        p = f"gpt_neox.layers.{layer}."
        fused = dense(p + "attention.query_key_value", norm(p + "input_layernorm", x), 3 * dim)
        q, k, v = fused.reshape(-1, heads, 3, hd).transpose(2, 1, 0, 3)
        out = attend(rotate(q, frequencies, 1.0), rotate(k, frequencies, 1.0), v)
        attention = dense(p + "attention.dense", out, dim)
        y = x if config["use_parallel_residual"] else x + attention
        hidden = gelu(dense(p + "mlp.dense_h_to_4h", norm(p + "post_attention_layernorm", y), inter))
        x = x + attention + dense(p + "mlp.dense_4h_to_h", hidden, dim)
    x = norm("gpt_neox.final_layer_norm", x)
    return x @ w("embed_out.weight", (config["vocab_size"], dim)).T


def gpt2_logits(config, w):
    """GPT2LMHeadModel: its Conv1D layers keep weights as [in, out], and q, k, v side by side."""
    dim, heads, eps = config["n_embd"], config["n_head"], config["layer_norm_epsilon"]
    embedding = w("wte.weight", (config["vocab_size"], dim), 0.7)
    x = embedding[TOKENS] + w("wpe.weight", (config["n_positions"], dim), 0.3)[: len(TOKENS)]

    def norm(name, y):
        return layer_norm(y, w.norm(name + ".weight", dim), w.bias(name + ".bias", dim), eps)

    def conv1d(name, y, width):
        inside = y.shape[-1]
        scale = 1.2 / math.sqrt(inside)
        return y @ w(name + ".weight", (inside, width), scale) + w.bias(name + ".bias", width)

    for layer in range(config["n_layer"]):
        p = f"h.{layer}."
        q, k, v = np.split(conv1d(p + "attn.c_attn", norm(p + "ln_1", x), 3 * dim), 3, -1)
        out = attend(heads_of(q, heads), heads_of(k, heads), heads_of(v, heads))
        x = x + conv1d(p + "attn.c_proj", out, dim)
        hidden = gelu_new(conv1d(p + "mlp.c_fc", norm(p + "ln_2", x), 4 * dim))
        x = x + conv1d(p + "mlp.c_proj", hidden, dim)
    return norm("ln_f", x) @ embedding.T


LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32, "hidden_size": 24,
    "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "rope_theta": 500.0, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 16},
}
QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 32, "hidden_size": 16,
    "intermediate_size": 36, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
    "tie_word_embeddings": True, "use_sliding_window": False, "torch_dtype": "bfloat16",
}
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 32, "hidden_size": 16,
    "intermediate_size": 28, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1,
    "head_dim": 8, "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "tie_word_embeddings": True, "attention_bias": False,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
}
NEOX = {
    "architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "vocab_size": 32, "hidden_size": 16,
    "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_act": "gelu",
    "max_position_embeddings": 64, "layer_norm_eps": 1e-5, "rotary_pct": 0.5, "rotary_emb_base": 10000,
    "use_parallel_residual": True, "tie_word_embeddings": False,
}
GPT2 = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 32, "n_embd": 16, "n_layer": 2,
    "n_head": 2, "n_positions": 24, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
}


def write_sharded(folder, tensors):
    names = sorted(tensors)
    shards = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    index = {"metadata": {"total_size": 0}, "weight_map": {}}
    for file, members in shards.items():
        write_safetensors(folder / file, {name: (tensors[name], "F32") for name in members})
        index["metadata"]["total_size"] += sum(4 * tensors[name].size for name in members)
        index["weight_map"].update({name: file for name in members})
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def record(name, config, compute, dtype="F32", sharded=False):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    weights = Weights(dtype)
    logits = compute(config, weights)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    if sharded:
        write_sharded(folder, weights.tensors)
    else:
        tensors = {key: (value, dtype) for key, value in weights.tensors.items()}
        if name == "gpt2":  # the causal mask that files of the hub carry along
            tensors["h.0.attn.bias"] = (np.tril(np.ones((1, 1, 4, 4))), "BOOL")
        write_safetensors(folder / "model.safetensors", tensors)
    rows = [[float(f"{x:.9g}") for x in row] for row in logits]
    (folder / "logits.json").write_text(json.dumps({"tokens": TOKENS, "logits": rows}) + "\n")
    print(name, "logits from", f"{logits.min():.3f}", "to", f"{logits.max():.3f}")


def main():
    record("llama", LLAMA, llama_logits)
    record("qwen2", QWEN2, llama_logits, "BF16")
    record("qwen3", QWEN3, llama_logits)
    record("gpt_neox", NEOX, neox_logits, sharded=True)
    record("gpt2", GPT2, gpt2_logits, "F16")


if __name__ == "__main__":
    main()
