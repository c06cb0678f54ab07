"""Every encoding of some sites, one spec per value that its choices may take.

Read from posenc.catalog(), so a new encoding, schedule or choice is tried without a change here.
Trained lengths are 16 and 24: tests cross both.
"""

import posenc

LENGTHS = {"original_max_position_embeddings": 16, "max_position_embeddings": 24}


def _required(field, pairs):
    """A value for a field without a default, or for one that the tests want small."""
    if field["name"] in LENGTHS:
        return LENGTHS[field["name"]]
    if field["name"] == "factor":
        return 4
    if field["name"] == "npos_max":
        return 8
    if field["default"] != "required":
        return None
    if field["name"] == "sections":
        return [pairs - pairs // 2, pairs // 2]
    if field["type"] == "number or list":
        step = 1.0 if field["name"].startswith("long") else 0.25
        return [1 + step * p for p in range(pairs)]
    return {"low_freq_factor": 1, "high_freq_factor": 4}[field["name"]]


def _alternatives(entry, parts, pairs):
    """The fields of an entry, first as they are by default, then with each choice taken."""
    base = {f["name"]: _required(f, pairs) for f in entry["fields"]}
    base = {name: value for name, value in base.items() if value is not None}
    yield base
    for field in entry["fields"]:
        name, kind = field["name"], field["type"]
        values = []
        if name in parts:
            for part in parts[name]:
                for fields in _alternatives(part, {}, pairs):
                    values.append({part["name"]: fields} if fields else part["name"])
        elif kind.startswith("one of "):
            values = kind[len("one of ") :].split(", ")
        elif kind == "true or false":
            values = [field["default"] != "true"]
        elif kind == "number or null" and name not in base:
            values = [1.25]
        for value in values:
            yield {**base, name: value}


def _is_valid(spec, head_dim):
    """Some choices need another one next to them."""
    try:
        spec.parameters(head_dim, 2)
    except (RuntimeError, ValueError):
        return False
    return True


def catalog_specs(*sites, head_dim=8):
    """Of these sites, or of all that attention takes."""
    catalog = posenc.catalog()
    parts = {"schedule": catalog["schedules"], "axes": catalog["axes"]}
    specs = []
    for entry in catalog["encodings"]:
        if entry["site"] in sites or not (sites or entry["site"] in ("input", "none")):
            for fields in _alternatives(entry, parts, head_dim // 2):
                spec = posenc.Spec([{entry["name"]: fields} if fields else entry["name"]])
                if _is_valid(spec, head_dim):
                    specs.append(spec.text)
    return list(dict.fromkeys(specs))
