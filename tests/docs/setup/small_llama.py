"""model.safetensors and config.json of a Llama with four layers of 64 channels."""

import json
from pathlib import Path

from zero_tensors import write

config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
          "num_key_value_heads": 2, "num_hidden_layers": 4, "max_position_embeddings": 128}
Path("config.json").write_text(json.dumps(config))

shapes = {"model.embed_tokens.weight": [256, 64]}
for layer in range(4):
    name = f"model.layers.{layer}."
    shapes |= {f"{name}self_attn.q_proj.weight": [64, 64], f"{name}self_attn.k_proj.weight": [32, 64],
               f"{name}self_attn.v_proj.weight": [32, 64], f"{name}self_attn.o_proj.weight": [64, 64],
               f"{name}mlp.up_proj.weight": [128, 64]}
write("model.safetensors", "BF16", shapes)
