"""Small random models of each family of transformers: their configs, and inputs for them."""

import copy

import torch

TOKENS = 12
SMALL = dict(
    vocab_size=61,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=None,
)
FOUR_LAYERS = {**SMALL, "num_hidden_layers": 4}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 8,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
LATENT = dict(
    num_key_value_heads=4,
    moe_intermediate_size=16,
    kv_lora_rank=16,
    q_lora_rank=24,
    qk_rope_head_dim=4,
    qk_nope_head_dim=8,
    v_head_dim=8,
    n_routed_experts=4,
    n_shared_experts=1,
    num_experts_per_tok=2,
    first_k_dense_replace=1,
)
FALCON = dict(
    vocab_size=61,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=64,
    alibi=False,
    bias=True,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=None,
)
DEBERTA = dict(
    vocab_size=61,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=64,
    pad_token_id=0,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    relative_attention=True,
    position_biased_input=False,
    pos_att_type=["p2c", "c2p"],
    norm_rel_ebd="layer_norm",
)
GEMMA = dict(head_dim=16, query_pre_attn_scalar=12, sliding_window=5)
TWO_TYPES = dict(layer_types=["sliding_attention", "full_attention"])

# By name: the config class and its fields.
FAMILIES = {
    "gpt-oss": (
        "GptOssConfig",
        {**SMALL, "head_dim": 8, "sliding_window": 5, "num_local_experts": 4}
        | {"num_experts_per_tok": 2, "rope_parameters": {**YARN, "truncate": False}},
    ),
    "llama4": (
        "Llama4TextConfig",
        {**FOUR_LAYERS, "head_dim": 8, "intermediate_size_mlp": 48, "num_local_experts": 2}
        | {"interleave_moe_layer_step": 2, "no_rope_layer_interval": 2}
        | {"attention_chunk_size": 5, "floor_scale": 4, "attn_scale": 0.5},
    ),
    "ministral3": (
        "Ministral3Config",
        {**SMALL, "head_dim": 8, "rope_parameters": {**YARN, "llama_4_scaling_beta": 0.5}},
    ),
    "gemma2": ("Gemma2Config", {**SMALL, **GEMMA, "attn_logit_softcapping": 3.0}),
    "gemma3": (
        "Gemma3TextConfig",
        {**SMALL, **GEMMA, **TWO_TYPES}
        | {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            }
        },
    ),
    "smollm3": ("SmolLM3Config", {**SMALL, "no_rope_layers": [1, 0]}),
    "cohere2": ("Cohere2Config", {**SMALL, **TWO_TYPES, "sliding_window": 5}),
    "granite": ("GraniteConfig", {**SMALL, "attention_multiplier": 0.3}),
    "phi3": ("Phi3Config", {**SMALL, "original_max_position_embeddings": 64}),
    "phi3-sliding": (
        "Phi3Config",
        {**SMALL, "original_max_position_embeddings": 64, "sliding_window": 5},
    ),
    "olmo2": ("Olmo2Config", SMALL),
    "falcon": ("FalconConfig", FALCON),
    "falcon-grouped": (
        "FalconConfig",
        {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2},
    ),
    "deepseek-v2": ("DeepseekV2Config", {**SMALL, **LATENT}),
    "deepseek-v3": (
        "DeepseekV3Config",
        {**SMALL, **LATENT, "n_group": 2, "topk_group": 1, "rope_parameters": YARN},
    ),
    "mistral4": (
        "Mistral4Config",
        {**SMALL, **LATENT, "rope_parameters": {**YARN, "llama_4_scaling_beta": 0.5}},
    ),
    "deberta-v3": ("DebertaV2Config", {**DEBERTA, "share_att_key": True, "position_buckets": 8}),
    "deberta-v2": (
        "DebertaV2Config",
        {**DEBERTA, "share_att_key": True, "position_buckets": 8, "max_relative_positions": 10}
        | {"conv_kernel_size": 3, "conv_act": "gelu"},
    ),
    "deberta-v2-no-buckets": (
        "DebertaV2Config",
        {**DEBERTA, "max_relative_positions": 9, "pos_att_type": ["c2p"]},
    ),
    "llama": ("LlamaConfig", SMALL),
    "mistral": ("MistralConfig", {**SMALL, "sliding_window": 5, "head_dim": 8}),
    "qwen2": (
        "Qwen2Config",
        {**SMALL, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3Config", {**SMALL, "head_dim": 16}),
}
LATENT_ATTENTION = ("deepseek-v2", "deepseek-v3", "mistral4")  # keys with rotated channels that all heads share
ENCODERS = ("deberta-v3", "deberta-v2", "deberta-v2-no-buckets")  # masked language models
OUTSIDE_REGISTRY = ("falcon", "falcon-grouped", *ENCODERS)
REGISTERED = [name for name in FAMILIES if name not in OUTSIDE_REGISTRY]
PATCHED = list(FAMILIES)


def devices():
    """The CPU, and the GPU where posenc was built for it."""
    found = ["cpu"]
    has = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", None)
    if torch.cuda.is_available() and has and has("posenc::_attention", "CUDA"):
        found.append("cuda")
    return found


def build(name, implementation="eager", seed=3, **changes):
    """A random model; None where the installed transformers has no such class."""
    import transformers

    kind, fields = FAMILIES[name]
    make = getattr(transformers, kind, None)
    if make is None:
        return None
    torch.manual_seed(seed)
    config = make(**copy.deepcopy({**fields, **changes}))  # configs write into their rope_parameters
    return of_config(config, implementation, encoder=name in ENCODERS)


def of_config(config, implementation, encoder=False):
    """None where the installed transformers has the config without a language model."""
    import transformers

    auto = transformers.AutoModelForCausalLM
    if encoder:
        auto = transformers.AutoModelForMaskedLM
    elif config.is_encoder_decoder:
        auto = transformers.AutoModelForSeq2SeqLM
    if type(config) in auto._model_mapping:
        return randomize(auto.from_config(config, attn_implementation=implementation).eval())
    kind = type(config).__name__.replace("Config", "ForCausalLM")  # not in the mapping of Auto classes
    model = getattr(transformers, kind, None)
    return None if model is None else randomize(model._from_config(config, attn_implementation=implementation).eval())


def randomize(model):
    """Freshly made models attend to all tokens alike, and would hide a wrong position."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            else:
                parameter.copy_(1.5 * torch.randn_like(parameter) / parameter.shape[-1] ** 0.5)
    return model


def prompt(tokens=TOKENS, padding=None, device="cpu"):
    """Two rows, of which the first is padded."""
    ids = torch.randint(2, 61, (2, tokens), generator=torch.Generator().manual_seed(5))
    if padding is None:
        return {"input_ids": ids.to(device)}
    mask = torch.ones_like(ids)
    mask[0, {"left": slice(0, 4), "right": slice(tokens - 4, tokens), "hole": slice(4, 7)}[padding]] = 0
    return {"input_ids": (ids * mask).to(device), "attention_mask": mask.to(device)}


def logits(model, given, **options):
    """Of real tokens: those of padding mean nothing."""
    with torch.no_grad():
        found = model(**given, **options).logits
    return found[given["attention_mask"].bool()] if "attention_mask" in given else found


def gradients(model, given):
    """Of all weights, of a loss over the real tokens."""
    labels = given["input_ids"].clone()
    if "attention_mask" in given:
        mask = given["attention_mask"].bool()
        hidden = ~mask
        hidden[:, 1:] |= ~mask[:, :-1]  # told by a padding token, whose logits mean nothing
        labels[hidden] = -100
    model.zero_grad()
    model(**given, labels=labels, use_cache=False).loss.backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def apart(found, expected):
    """The largest difference, as a share of the largest value."""
    return float((found - expected).abs().max() / expected.abs().max())


def gradients_apart(found, expected):
    """Likewise over all weights, each against its own largest gradient and a little of the largest."""
    if set(found) != set(expected):
        return float("inf")
    largest = max(float(g.abs().max()) for g in expected.values())
    return max(
        float((found[n] - g).abs().max()) / (float(g.abs().max()) + 1e-2 * largest)
        for n, g in expected.items()
    )
