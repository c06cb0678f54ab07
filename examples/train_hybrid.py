"""Trains attention to say, at every token, the token before it, with several encodings.

    PYTHONPATH=build/release/python python3 examples/train_hybrid.py

The question is one of position alone: without an encoding it cannot be learnt. CoPE's table of
positions is a parameter of the call, and gets its gradient like any weight.
"""

import torch
from torch import nn

import posenc

DIM, TOKENS, STEPS = 16, 24, 120


def train(spec: str) -> float:
    torch.manual_seed(1)
    projections = nn.Linear(DIM, 3 * DIM)
    params = {
        name: value.requires_grad_()
        for name, value in posenc.Spec(spec).initial_parameters(head_dim=DIM, heads=1).items()
    }
    optimizer = torch.optim.Adam([*projections.parameters(), *params.values()], lr=0.02)
    for _ in range(STEPS):
        tokens = torch.randn(8, TOKENS, DIM)
        q, k, v = projections(tokens).unsqueeze(1).chunk(3, dim=-1)  # one head
        said = posenc.attention(q, k, v, spec=spec, params=params, causal=True).squeeze(1)
        loss = nn.functional.mse_loss(said[:, 1:], tokens[:, :-1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main() -> None:
    errors = {spec: train(spec) for spec in ("none", "rope", "rope + cope(npos_max=64)")}
    for spec, error in errors.items():
        print(f"{spec:26} mean square error {error:.4f}")
    none, rope, hybrid = errors.values()
    if not (rope < 0.5 * none and hybrid < rope):
        raise SystemExit("the encodings did not help")


if __name__ == "__main__":
    main()
