"""Runs a Hugging Face model through posenc, then with another encoding.

    PYTHONPATH=build/release/python python3 examples/patch_model.py

The model is small and random, so that nothing is downloaded; any model of transformers that
posenc.patch knows takes its place.
"""

import torch

import posenc

try:
    from transformers import LlamaConfig, LlamaForCausalLM
except ImportError:
    raise SystemExit("skipped: the transformers package is not installed") from None


def main() -> None:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=100,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = LlamaForCausalLM(config).eval()
    ids = torch.randint(2, 100, (1, 48))
    with torch.no_grad():
        before = model(ids).logits
        print(posenc.patch(model))
        after = model(ids).logits
        moved = (after - before).abs().max()
        print(f"largest logit {before.abs().max():.3f}, moved by {moved:.1e}")
        posenc.patch(model, "rope(schedule=linear(factor=4)) + alibi")
        print(f"with another spec moved by {(model(ids).logits - before).abs().max():.1e}")
        posenc.unpatch(model)
        if not torch.equal(model(ids).logits, before):
            raise SystemExit("unpatch did not put the model back")


if __name__ == "__main__":
    main()
