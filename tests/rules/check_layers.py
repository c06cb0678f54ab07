"""A layer includes only itself and what is to its left; the table is cmake/PosencLayers.cmake.

Also: nothing left of torch includes a torch header, and a public header includes the standard
library and posenc alone, so that an installed header needs no package of ours behind it.
"""

import argparse
import os
from pathlib import Path

from rules_lib import finish, includes, read_table, source_files

TORCH_PREFIXES = ("torch/", "ATen/", "c10/", "caffe2/")
# Headers outside of a layer's folder, and where they belong: posenc.h includes everything up to the
# kernels, posenc_c.h is the C ABI.
TOP_HEADERS = {"posenc/posenc.h": "kernels", "posenc/posenc_c.h": "capi"}


def layer_of_include(root, path, target, quoted, layers):
    """The layer an include reaches, or None for outside code."""
    if target in TOP_HEADERS:
        return TOP_HEADERS[target]
    parts = target.split("/")
    if parts[0] == "posenc" and len(parts) > 2:
        return parts[1] if parts[1] in layers else None
    if not quoted:
        return None
    if (path.parent / target).is_file():  # written relative to the file itself
        inside = os.path.relpath((path.parent / target).resolve(), root.resolve()).split(os.sep)
        if inside[0] == "src":
            return inside[1]
        return inside[2] if inside[:2] == ["include", "posenc"] else None
    return parts[0] if parts[0] in layers else None


def check_file(root, path, layer, public, layers, torch_layers):
    """The problems of one file, as strings."""
    allowed = layers[layer] | {layer}
    for number, target, quoted in includes(path):
        where = f"{path.relative_to(root)}:{number}"
        reached = layer_of_include(root, path, target, quoted, layers)
        is_torch = target.startswith(TORCH_PREFIXES)
        if reached and reached not in allowed:
            yield f"{where}: layer {layer} may not include layer {reached} ({target})"
        elif is_torch and layer not in torch_layers:
            yield f"{where}: layer {layer} builds without libtorch and may not include {target}"
        elif public and not target.startswith("posenc/") and (quoted or "/" in target):
            if not (is_torch and layer in torch_layers):
                yield f"{where}: a public header may include only posenc/ and std ({target})"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--table", type=Path, help="default: <root>/cmake/PosencLayers.cmake")
    args = parser.parse_args()
    layers, torch_layers = read_table(args.table or args.root / "cmake/PosencLayers.cmake")

    files = []  # (path, layer, is it public)
    for layer in layers:
        files += [(p, layer, False) for p in source_files(args.root / "src" / layer)]
        files += [(p, layer, True) for p in source_files(args.root / "include/posenc" / layer)]
    problems = []
    for header in sorted((args.root / "include/posenc").glob("*.h")):
        layer = TOP_HEADERS.get(header.relative_to(args.root / "include").as_posix())
        if layer:
            files.append((header, layer, True))
        else:
            problems.append(f"{header.relative_to(args.root)}:1: belongs into a layer's folder")

    for path, layer, public in files:
        problems += check_file(args.root, path, layer, public, layers, torch_layers)
    known = set(layers)
    for folder in [args.root / "src", args.root / "include/posenc"]:
        for child in sorted(folder.iterdir()) if folder.is_dir() else []:
            if child.is_dir() and child.name not in known:
                problems.append(f"{child.relative_to(args.root)}:1: not a layer of the table")
    finish("layers", problems, len(files))


if __name__ == "__main__":
    main()
