"""posenc.patch on a stand-in for DeBERTa v2: the same outputs and gradients before and after."""

import copy

import pytest
import torch

import posenc
from hf_deberta_stand_in import DebertaV2ForMaskedLM, relative_positions
from hf_stand_in import installed
from posenc import _hf_attention
from posenc._hf_deberta import _build_buckets, _model_entries, _rows_of_spec

KINDS = {"c2p": ["c2p"], "p2c": ["p2c"], "both": ["c2p", "p2c"]}
SIZES = {"buckets": dict(), "no buckets": dict(position_buckets=-1, max_relative_positions=20)}


@pytest.fixture(autouse=True)
def transformers():
    with installed():
        yield


def build(**fields):
    """Weights large enough for attention to look at positions."""
    torch.manual_seed(3)
    model = DebertaV2ForMaskedLM(**fields).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 1.5 / parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else 0.1
            parameter.add_(scale * torch.randn_like(parameter))
    return model


def prompt(tokens=19, padding=None):
    ids = torch.randint(2, 61, (2, tokens), generator=torch.Generator().manual_seed(5))
    mask = torch.ones_like(ids)
    if padding:
        cut = {"left": slice(0, 4), "right": slice(tokens - 4, tokens), "hole": slice(4, 7)}
        mask[0, cut[padding]] = 0
    return ids, mask


def run(model, ids, mask, **options):
    """The outputs of real tokens, and the gradients of all weights."""
    model.zero_grad()
    out = model(ids, mask, **options)[0][mask.bool()]
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(7), dtype=out.dtype)
    (out * weights).sum().backward()
    grads = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return out.detach(), grads


def assert_close(found, expected, bound=1e-5):
    difference = (found - expected).abs().max() / expected.abs().max()
    assert difference <= bound, f"differs by {difference:.2e} of the largest"


def assert_same(model, ids, mask, **options):
    out, grads = run(model, ids, mask, **options)
    report = posenc.patch(model)
    found, found_grads = run(model, ids, mask, **options)
    assert_close(found, out)
    assert set(found_grads) == set(grads)
    largest = max(g.abs().max() for g in grads.values())
    for name, gradient in grads.items():
        difference = (found_grads[name] - gradient).abs().max()
        assert difference <= 1e-4 * gradient.abs().max() + 1e-6 * largest, name
    assert posenc.unpatch(model)
    assert torch.equal(run(model, ids, mask, **options)[0], out)
    return report


@pytest.fixture
def specs(monkeypatch):
    """What the kernels are asked for."""
    seen, attention = [], _hf_attention.functional.attention

    def recorded(q, k, v, spec, *rest, **options):
        seen.append(posenc.Spec(spec))
        return attention(q, k, v, spec, *rest, **options)

    monkeypatch.setattr(_hf_attention.functional, "attention", recorded)
    return seen


@pytest.mark.parametrize("padding", [None, "left", "right", "hole"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", SIZES)
def test_outputs_and_gradients(sizes, kind, shared, padding, specs):
    model = build(share_att_key=shared, pos_att_type=KINDS[kind], **SIZES[sizes])
    report = assert_same(model, *prompt(padding=padding))
    assert report.attention == [f"encoder.layer.{i}.self" for i in range(2)]
    assert not report.untouched and not report.rotary
    spec = report.specs[""]
    assert spec.encodings == ["relative_query"] * len(KINDS[kind])
    assert spec.text.count("side=key") == ("p2c" in KINDS[kind])
    assert specs == [spec] * 2


def test_the_table_trains():
    model = build()
    posenc.patch(model)
    ids, mask = prompt(tokens=40)
    gradient = run(model, ids, mask)[1]["encoder.rel_embeddings.weight"]
    read = gradient.abs().amax(1) > 0
    assert not read[0] and read[1:].sum() >= 13  # row 0 is that of distances past -64


@pytest.mark.parametrize("tokens", [1, 2, 7, 16, 17, 18, 30])
@pytest.mark.parametrize("sizes", [dict(position_buckets=8), dict(position_buckets=-1)])
def test_sequences_past_the_farthest_distance(tokens, sizes, specs):
    """Keys far after the query read row 0 of the table, which no entry of the model's spec is."""
    model = build(max_relative_positions=16, **sizes)
    report = assert_same(model, *prompt(tokens=tokens))
    same = tokens <= 16 or sizes["position_buckets"] < 0
    assert all((spec == report.specs[""]) == same for spec in specs)
    assert len(set(specs)) == 1 and len(specs) == 2
    assert all("extent=17" in spec.text for spec in specs if not same)


@pytest.mark.parametrize("sizes", [(18, 65), (20, 81), (256, 512)])
def test_logarithms_of_two_precisions(sizes, specs):
    """Where float32 rounds a logarithm to another bucket, every distance has an entry."""
    buckets, farthest = sizes
    tokens = min(farthest, 70)
    rows = (_build_buckets(*sizes, farthest, "cpu") + buckets).clamp(0, 2 * buckets - 1)
    differs = rows.tolist() != _rows_of_spec(*sizes, farthest)
    assert differs == (buckets != 256)
    model = build(position_buckets=buckets, max_relative_positions=farthest)
    report = assert_same(model, *prompt(tokens=tokens, padding="left"))
    assert all((spec != report.specs[""]) == differs for spec in specs)


@pytest.mark.parametrize("sizes", [(8, 64), (18, 65), (20, 81), (256, 512), (-1, 16)])
def test_rows_are_those_that_the_kernel_reads(sizes):
    tokens = min(80, sizes[1] + 5)
    entries = _model_entries(*sizes)
    table = 0.01 * entries.rows.double().expand(1, 2, -1).clone()
    table[:, 1] = 0
    q = torch.ones(1, 1, tokens, 2, dtype=torch.double)
    weights = posenc.attention(
        q,
        torch.zeros_like(q),
        q,
        f"relative_query({entries.fields})",
        {"relative_query.table": table},
        scale=1.0,
        return_weights=True,
    )[1][0, 0]
    scores = 100 * weights.log()
    found = scores - scores.diagonal()[:, None]
    expected = torch.tensor(_rows_of_spec(*sizes, tokens))
    places = torch.arange(tokens)
    expected = expected[places[:, None] - places + tokens - 1] - expected[tokens - 1]
    assert torch.allclose(found, expected.double(), atol=1e-6)


@pytest.mark.parametrize(
    "fields",
    [
        dict(relative_attention=False),
        dict(relative_attention=False, pos_att_type=[]),
        dict(pos_att_type=[]),
        dict(norm_rel_ebd="layer_norm"),
        dict(is_causal=False),
    ],
)
def test_other_configs(fields):
    report = assert_same(build(**fields), *prompt(padding="right"))
    plain = fields.get("relative_attention") is False or fields.get("pos_att_type") == []
    assert (report.specs[""].text == "none") == plain


def test_positions_matter_in_these_tests():
    model = build()
    ids, mask = prompt()
    expected = run(model, ids, mask)[0]
    posenc.patch(model, "none")
    assert (run(model, ids, mask)[0] - expected).abs().max() > 1e-2 * expected.abs().max()


@pytest.mark.parametrize("kind", KINDS)
def test_attention_weights(kind):
    model = build(pos_att_type=KINDS[kind])
    ids, mask = prompt(padding="right")
    with torch.no_grad():
        expected = model(ids, mask, output_attentions=True)[1]
        posenc.patch(model)
        found = model(ids, mask, output_attentions=True)[1]
        assert model(ids, mask)[1] == [None, None]
    for one, other in zip(found, expected):
        real = mask.bool()[:, None].expand(2, 4, -1)
        assert torch.allclose(one[real], other[real], atol=1e-5)


def test_queries_of_other_states():
    """The enhanced mask decoder's."""
    model = build()
    ids, mask = prompt(padding="left")
    states = torch.randn(2, ids.shape[1], 32)
    assert_same(model, ids, mask, query_states=states)
    posenc.patch(model)
    with pytest.raises(ValueError, match="query_states has 5 tokens but hidden_states has 19"):
        model(ids, mask, query_states=states[:, :5])


def test_masks():
    """Those of four dimensions work if they hide padding, and are read again when they change."""
    model = build()
    ids, mask = prompt(padding="left")
    posenc.patch(model)
    with torch.no_grad():
        expected = model(ids, mask)[0]
        row = mask[:, None, None].clone()
        assert torch.equal(model(ids, row)[0], expected)
        assert torch.equal(model(ids, mask[:, None, None] * mask[:, None, :, None])[0], expected)
        assert torch.equal(model(ids, mask.bool())[0], expected)
        row[0, 0, 0, :4] = 1
        assert torch.equal(model(ids, row)[0], model(ids)[0])
        one = torch.ones(1, 1, 1, 19)
        one[..., 15:] = 0
        assert torch.equal(model(ids, one)[0], model(ids, one[0, 0].expand(2, -1))[0][:, :19])
        causal = torch.ones(2, 1, 19, 19).tril()
        for bad in (causal, causal.expand(2, 4, 19, 19), torch.ones(2, 1, 19, 7)):
            with pytest.raises(ValueError, match="attention_mask must be .* hides other pairs"):
                model(ids, bad)


def test_relative_positions_of_the_caller():
    model = build()
    ids, mask = prompt()
    own = relative_positions(model.config, 19)
    assert_same(model, ids, mask, relative_pos=own)
    assert_same(model, ids, mask, relative_pos=own[0])
    assert_same(model, ids, mask, relative_pos=2 * own)  # also a bucket per distance
    posenc.patch(model)
    expected = model(ids, mask)[0]
    layer = model.encoder.layer[0].self
    given = dict(rel_embeddings=model.encoder.rel_embeddings.weight)
    x, square = model.embeddings(ids), torch.ones(2, 1, 19, 19)
    assert torch.equal(layer(x, square, **given)[0], layer(x, square, relative_pos=own, **given)[0])
    assert torch.equal(model(ids, mask, relative_pos=own)[0], expected)
    own[0, 3, 7] = 0
    for bad in (own, own.abs(), own.expand(2, -1, -1), own[:, :5]):
        with pytest.raises(ValueError, match="relative_pos must be that of build_relative_position"):
            model(ids, mask, relative_pos=bad)


@pytest.mark.parametrize(
    "fields, error",
    [
        (dict(position_buckets=2), "position_buckets 2 is unsupported"),
        (dict(position_buckets=7), "position_buckets 7 is unsupported"),
        (
            dict(max_relative_positions=8),
            "max_relative_positions 8 is unsupported: it must be above position_buckets, which is 8",
        ),
    ],
)
def test_sizes_without_a_spec_are_refused(fields, error):
    model = build(**fields)
    with pytest.raises(ValueError, match=rf"^\[patch\] {error}"):
        posenc.patch(model)
    assert not posenc.unpatch(model)
    posenc.patch(model, "rope")


def test_classes_of_the_same_name_are_refused(monkeypatch):
    model = build()
    other = "transformers.models.deberta.modeling_deberta"
    monkeypatch.setattr(type(model.encoder.layer[0].self), "__module__", other)
    with pytest.raises(ValueError, match="knows .*deberta_v2.DisentangledSelfAttention"):
        posenc.patch(model)


@pytest.mark.parametrize("spec", ["rope", "alibi", "t5", "rope + fox", "cope(npos_max=8)"])
def test_another_encoding(spec):
    model = build()
    names = list(model.state_dict())
    ids, mask = prompt(padding="right")
    report = posenc.patch(model, spec)
    assert report.specs == {"": posenc.Spec(spec)}
    found, grads = run(model, ids, mask)
    assert "encoder.rel_embeddings.weight" not in grads
    for name, parameter in model.named_parameters():
        if ".pos." in name:
            assert name in grads and grads[name].isfinite().all()
    alone = model(ids[:1, :15])[0]
    assert_close(found[:15], alone[0].detach())
    posenc.unpatch(model)
    assert list(model.state_dict()) == names


def test_the_model_s_own_spec_with_new_tables():
    model = build()
    ids, mask = prompt()
    expected = run(model, ids, mask)[0]
    own = posenc.patch(model).specs[""]
    posenc.patch(model, own)
    table = model.encoder.rel_embeddings.weight[1:]
    with torch.no_grad():
        for layer in (layer.self for layer in model.encoder.layer):
            for term, project in (("", layer.key_proj), ("_2", layer.query_proj)):
                values = project(table).view(-1, 4, 8).permute(1, 2, 0)
                layer.pos.get_parameter(f"relative_query{term}.table").copy_(values)
    assert_close(run(model, ids, mask)[0], expected)


def test_dropout():
    """That of the table is the model's own, draw by draw; that of weights follows torch's seed."""
    model = build(hidden_dropout_prob=0.3).train()
    ids, mask = prompt()

    def seeded(seed):
        torch.manual_seed(seed)
        return model(ids, mask)[0].detach()

    expected = seeded(1)
    posenc.patch(model)
    assert_close(seeded(1), expected)
    assert (seeded(2) - expected).abs().max() > 1e-2 * expected.abs().max()
    for layer in model.encoder.layer:
        layer.self.dropout.p = 0.5
    found = seeded(1)
    assert torch.equal(seeded(1), found)
    assert (found - expected).abs().max() > 1e-2 * expected.abs().max()


@pytest.mark.parametrize("dtype, bound", [(torch.double, 1e-6), (torch.bfloat16, 0.06)])
def test_other_types(dtype, bound):
    model = build(share_att_key=False).to(dtype)
    ids, mask = prompt(padding="left")
    expected = run(model, ids, mask)[0]
    posenc.patch(model)
    found = run(model, ids, mask)[0]
    assert found.dtype == dtype
    assert_close(found.float(), expected.float(), bound)


def test_inference_before_training():
    model = build()
    ids, mask = prompt()
    expected = run(model, ids, mask)
    posenc.patch(model)
    with torch.inference_mode():
        model(ids, mask)
    found = run(model, ids, mask)
    assert_close(found[0], expected[0])
    twin = copy.deepcopy(model)
    posenc.unpatch(model)
    assert_close(run(twin, ids, mask)[0], expected[0])
