"""gpt2.safetensors, a GPT-2 with four layers of 64 channels, and new.safetensors, the same with RoPE."""

from zero_tensors import write

shapes = {"wte.weight": [128, 64], "wpe.weight": [64, 64]}
for layer in range(4):
    shapes |= {f"h.{layer}.ln_1.weight": [64], f"h.{layer}.attn.c_attn.weight": [64, 192],
               f"h.{layer}.attn.c_proj.weight": [64, 64], f"h.{layer}.mlp.c_fc.weight": [64, 256]}
write("gpt2.safetensors", "F32", shapes)

del shapes["wpe.weight"]
write("new.safetensors", "F32", shapes | {"rope.alpha": [8]})
