#!/usr/bin/env python3
"""Makes the repositories of the kernels for Hugging Face's kernel-builder: packaging/hf_kernels/stage.py OUT

Each has posenc's sources, those of its dependencies from --third-party FOLDER, and a build.toml that lists them.
"""

import argparse
import shutil
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COMMON = ("arguments", "prepared", "threads", "stable/tensor")
KERNELS = {"rotary": ("rope_cpu",), "attention": ("attention_cpu", "cache_cpu", "paged_cache", "stable/paged_gather")}
# Sources of a dependency, and the folder that its headers are relative to.
THIRD_PARTY = {
    "fmt": ((), "include"),
    "highway": (("hwy/abort.cc", "hwy/aligned_allocator.cc", "hwy/per_target.cc", "hwy/print.cc", "hwy/targets.cc"), ""),
    "nlohmann_json": ((), "include"),
    "yaml-cpp": (("src/*.cpp",), "include"),
}
MACROS = ("POSENC_STABLE_TORCH", "POSENC_NAMESPACE=TORCH_EXTENSION_NAME", "FMT_HEADER_ONLY=1", "YAML_CPP_STATIC_DEFINE",
          "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
FLAGS = ("-std=c++20", "-ffp-contract=off", "-fvisibility=hidden", *(f"-D{macro}" for macro in MACROS))


def toml_list(values):
    """
    >>> print(toml_list(["a", "b"]))
    [
      "a",
      "b",
    ]
    """
    return "[\n" + "".join(f'  "{value}",\n' for value in values) + "]"


def library_sources(tree):
    """What the C++ library compiles, without files, the C ABI and CUDA."""
    found = [path for layer in ("core", "encodings", "kernels") for path in (tree / "src/library" / layer).rglob("*.cc")]
    return sorted(path for path in found if "cuda" not in path.relative_to(tree).parts)


def copy_posenc(folder):
    """The sources below `folder`; those of other programs stay behind."""
    for part in ("include", "src/library", "src/bindings/torch"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("cuda", "composed", "CMakeLists.txt"))
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")


def third_party(source, folder):
    """Copies the dependencies. Returns their sources and include folders, relative to the repository."""
    sources, includes = [], []
    for name, (patterns, include) in THIRD_PARTY.items():
        if not (source / name / include).is_dir():
            raise SystemExit(f"stage: {source / name} has no sources of {name}; unpack its release there")
        shutil.copytree(source / name, folder / "third_party" / name, ignore=shutil.ignore_patterns(".git", "test*"))
        copied = folder / "third_party" / name
        sources += [path for pattern in patterns for path in sorted(copied.glob(pattern))]
        includes.append((copied / include).relative_to(folder).as_posix())
    return [path.relative_to(folder).as_posix() for path in sources], includes


def kernel_section(name, sources, includes):
    return (f'\n[kernel.posenc_{name}]\nbackend = "cpu"\ndepends = ["torch"]\n'
            f"cxx-flags = {toml_list(FLAGS)}\ninclude = {toml_list(includes)}\nsrc = {toml_list(sources)}\n")


def stage(name, folder, dependencies):
    """The repository of one kernel."""
    shutil.copytree(HERE / name, folder)
    copy_posenc(folder / "posenc")
    shutil.copyfile(ROOT / "python/posenc/_stable.py", folder / f"torch-ext/posenc_{name}/_register.py")
    own = [folder / f"posenc/src/bindings/torch/{source}.cc" for source in COMMON + KERNELS[name]]
    sources = [path.relative_to(folder).as_posix() for path in library_sources(folder / "posenc") + own]
    includes = ["posenc/include", "posenc/src", "posenc/src/library", "posenc/src/bindings"]
    if dependencies:
        more = third_party(dependencies, folder)
        sources, includes = sources + more[0], includes + more[1]
    with (folder / "build.toml").open("a", encoding="utf-8") as file:
        file.write(kernel_section(name, sources, includes))
    print(f"{folder}: {len(sources)} sources")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="where the repositories go; made anew")
    parser.add_argument("--third-party", type=Path, help="folder with fmt, highway, nlohmann_json and yaml-cpp; without it build.toml lacks them")
    args = parser.parse_args()
    for name in KERNELS:
        folder = args.out / f"posenc-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        stage(name, folder, args.third_party)


if __name__ == "__main__":
    main()
