"""A layer includes only itself and what it uses; the table is cmake/PosencLayers.cmake.

Groups of layers are in order: library, bindings, lab, show. A layer uses layers of its own group or of one before it;
of the library only weights uses system, for files.

Also: nothing left of torch includes a torch header, and a public header includes the standard
library and posenc alone, so that an installed header needs no package of ours behind it. CONTRIBUTING.md names every
layer in its Layout and in its layer rule.
"""

import argparse
import os
import re
from pathlib import Path

from rules_lib import finish, includes, layer_folders, read_rows, read_table, source_files

GROUPS = ("library", "bindings", "lab", "show")
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
            return next((part for part in inside[1:3] if part in layers), None)
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


def check_groups(table):
    """Rows of the table that use a group after their own."""
    group_of = {name: group for group, name, _ in read_rows(table)}
    for group, name, direct in read_rows(table):
        for used in direct:
            if group in GROUPS and group_of[used] in GROUPS and GROUPS.index(group_of[used]) > GROUPS.index(group):
                yield f"{Path(table).name}:1: {name} ({group}) may not use {used} ({group_of[used]})"
            elif group == "library" and used == "system" and name != "weights":
                yield f"{Path(table).name}:1: {name} is of the library and may not use system"


def check_guide(guide, layers):
    """Layers that the Layout or the layer rule of CONTRIBUTING leaves out."""
    text = guide.read_text()
    for heading, shown in (("## Layout", r"(^|[\s/]){}/ "), ("## The layer rule", r"\b{}\b")):
        start = text.index(heading)
        section = text[start : text.index("\n## ", start)]
        line = text.count("\n", 0, start) + 1
        for name in layers:
            if not re.search(shown.format(name), section):
                yield f"{guide.name}:{line}: does not name the layer {name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--table", type=Path, help="default: <root>/cmake/PosencLayers.cmake")
    args = parser.parse_args()
    table = args.table or args.root / "cmake/PosencLayers.cmake"
    layers, torch_layers = read_table(table)
    folders = layer_folders(table)

    files = []  # (path, layer, is it public)
    for layer in layers:
        files += [(p, layer, False) for p in source_files(args.root / folders[layer])]
        files += [(p, layer, True) for p in source_files(args.root / "include/posenc" / layer)]
    problems = list(check_groups(table))
    guide = args.root / "CONTRIBUTING.md"
    if guide.is_file():
        built = [name for name in layers if (args.root / folders[name]).is_dir()]
        problems += check_guide(guide, built)
    for header in sorted((args.root / "include/posenc").glob("*.h")):
        layer = TOP_HEADERS.get(header.relative_to(args.root / "include").as_posix())
        if layer:
            files.append((header, layer, True))
        else:
            problems.append(f"{header.relative_to(args.root)}:1: belongs into a layer's folder")

    for path, layer, public in files:
        problems += check_file(args.root, path, layer, public, layers, torch_layers)
    known = {args.root / folder for folder in folders.values()}
    known |= {args.root / "include/posenc" / layer for layer in layers}
    groups = {folder.parent for folder in known}
    for folder in groups | {args.root / "src", args.root / "include/posenc"}:
        for child in sorted(folder.iterdir()) if folder.is_dir() else []:
            if child.is_dir() and child not in known | groups:
                problems.append(f"{child.relative_to(args.root)}:1: not a layer of the table")
    finish("layers", problems, len(files))


if __name__ == "__main__":
    main()
