#!/usr/bin/env python3
"""Makes a self-contained wheel of a build tree: tools/wheel.py build/release dist

`pip wheel` packs the package. Then the shared libraries that it needs, but for those of glibc, GCC and torch,
are copied into it with their licences, and the wheel gets the oldest platform tag that is true: the version of
glibc whose symbols its files need. Runs on Debian, whose packages have the licences.

A tree with the library for PyTorch's stable ABI gives a wheel for every torch from 2.10; --abi torch packs the other
library, with CUDA kernels and the programs that train, for the torch that it was built for.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What is not bundled: what every system has, what torch brings, and the baseline of posenc bench (35 MB).
SYSTEM = re.compile(r"(lib(c|m|dl|pthread|rt|util|resolv|gcc_s|stdc\+\+|openblas)|ld-linux.*)\.so\b")
TORCH = re.compile(r"lib(torch|c10|cudart)")
# Debian's PyTorch is there, and gives its libraries names with a version.
RUN_PATH = "$ORIGIN:$ORIGIN/../_lib:$ORIGIN/../../torch/lib:/usr/lib/python3/dist-packages/torch/lib"
LIBTORCH_SYMBOL = re.compile(r"_ZN?K?(St)?(2at|3c10|5torch|6caffe2)")
HEADER_ONLY = ("libcli11-dev", "nlohmann-json3-dev")
# (GLIBCXX_3.4.X, 2.Y): systems with glibc 2.Y have a libstdc++ with symbols up to X, as manylinux defines it.
GLIBCXX = ((19, 17), (22, 24), (24, 27), (28, 31), (29, 34), (30, 35), (33, 39))


def platform_tag(symbols, machine):
    """The platform of a set of versioned symbols.

    >>> platform_tag({"GLIBC_2.2.5", "GLIBC_2.34", "GLIBCXX_3.4.21"}, "x86_64")
    'manylinux_2_34_x86_64'
    >>> platform_tag({"GLIBC_2.17", "GLIBCXX_3.4.30"}, "aarch64")
    'manylinux_2_35_aarch64'
    >>> platform_tag({"GLIBCXX_3.4.99"}, "x86_64")
    Traceback (most recent call last):
    SystemExit: wheel: GLIBCXX_3.4.99 is newer than this script; add it to GLIBCXX
    """
    minors = [17]
    for symbol in symbols:
        library, version = symbol.split("_")
        last = int((version.split(".") + ["0"])[1 if library == "GLIBC" else 2]) if version.count(".") else 0
        if library == "GLIBC":
            minors.append(last)
            continue
        known = [glibc for glibcxx, glibc in GLIBCXX if glibcxx >= last]
        if not known:
            raise SystemExit(f"wheel: {symbol} is newer than this script; add it to GLIBCXX")
        minors.append(known[0])
    return f"manylinux_2_{max(minors)}_{machine}"


def explorer_missing(dist):
    """What to say of a wheel without the explorer, or nothing where `make web` has built it.

    >>> explorer_missing(Path("build/no_such_folder"))
    'wheel: there is no build/no_such_folder/index.html, so the wheel has no explorer; make web builds it'
    >>> explorer_missing(ROOT / "web/src")
    """
    page = dist / "index.html"
    if page.is_file():
        return None
    return f"wheel: there is no {page}, so the wheel has no explorer; make web builds it"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-dW", path))


def symbols(path):
    return set(re.findall(r"\bName: (GLIBC(?:XX)?_3?[0-9.]+)", output("readelf", "-VW", path)))


def bundled(files):
    """Where each library that the files need is on this system, by the name they know it by."""
    found = {}
    own = {path.name for path in files}
    for file in files:
        places = dict(re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", file), re.M))
        queue = [file]
        while queue:
            for name in needed(queue.pop()):
                if name in own or name in found or SYSTEM.match(name) or TORCH.match(name):
                    continue
                if name not in places:
                    raise SystemExit(f"wheel: {name}, which {file.name} needs, was not found")
                found[name] = Path(places[name]).resolve()
                queue.append(found[name])
    return found


def package_of(library):
    """The Debian package of a library, whose files may be known below /usr or not."""
    for path in (str(library), str(library).removeprefix("/usr")):
        done = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    raise SystemExit(f"wheel: no Debian package has {library}, so its licence is unknown")


def bundle(package, licenses):
    """Copies the libraries into the package, points all files at them, and copies the licences."""
    files = [path for folder in ("_lib", "_bin") for path in (package / folder).glob("*") if is_elf(path)]
    libraries = bundled(files)
    for name, source in libraries.items():
        shutil.copyfile(source, package / "_lib" / name)
        files.append(package / "_lib" / name)
    licenses.mkdir(exist_ok=True)
    for owner in {*map(package_of, libraries.values()), *HEADER_ONLY}:
        shutil.copyfile(f"/usr/share/doc/{owner}/copyright", licenses / f"{owner}.txt")
    for path in (package / "_bin").glob("*"):
        path.chmod(0o755)  # `wheel unpack` before 0.41 forgets it
    for path in files:
        subprocess.run(["strip", "--strip-unneeded", path], check=True)
        subprocess.run(["patchelf", "--set-rpath", RUN_PATH, path], check=True)
    return files


def refuse_libtorch(files):
    """A wheel for the stable ABI needs PyTorch's C functions alone."""
    for path in files:
        undefined = [line.split()[-1] for line in output("nm", "-D", "--undefined-only", path).splitlines()]
        wrong = [name for name in undefined if LIBTORCH_SYMBOL.match(name)]
        if wrong:
            raise SystemExit(f"wheel: {path.name} needs {wrong[0]} of libtorch, which its stable ABI lacks; use --abi torch")


def abi_of(build, wanted):
    """The library to pack: "stable" or "torch"."""
    folder = build / "python/posenc/_lib"
    names = {"stable": "libposenc_torch_stable.so", "torch": "built_for.json"}
    for abi in [wanted] if wanted else list(names):
        if (folder / names[abi]).is_file():
            return abi
    raise SystemExit(f"wheel: {folder} has no {names.get(wanted, 'library')}; build it first (make build)")


def pip_wheel(build, abi, folder):
    """The wheel as pip makes it for this machine, from a copy: pip leaves its own files in the tree it builds from."""
    tree = folder / "tree"
    for part in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "python", "include", "configs"):
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copyfile
        tree.mkdir(exist_ok=True)
        copy(ROOT / part, tree / part)
    environment = {**os.environ, "POSENC_PREBUILT": str(build.resolve()), "POSENC_ABI": abi}
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps",
                           "--no-build-isolation", "--wheel-dir", folder, tree], check=False, env=environment)
    if done.returncode != 0:
        raise SystemExit("wheel: pip wheel failed")
    (made,) = folder.glob("*.whl")
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, help="a build tree with the Python package and the programs")
    parser.add_argument("dist", type=Path, help="where the wheel goes")
    parser.add_argument("--abi", choices=("stable", "torch"), help="of two libraries in the tree (default: stable)")
    args = parser.parse_args()
    abi = abi_of(args.build, args.abi)
    missing = explorer_missing(ROOT / "build/web/dist")
    if missing:
        print(missing, file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = pip_wheel(args.build, abi, folder)
        subprocess.run([sys.executable, "-m", "wheel", "unpack", "--dest", folder / "content", made], check=True,
                       stdout=subprocess.DEVNULL)
        (content,) = (folder / "content").iterdir()
        (info,) = content.glob("*.dist-info")
        files = bundle(content / "posenc", info / "licenses")
        if abi == "stable":
            refuse_libtorch(files)
        tag = platform_tag(set().union(*map(symbols, files)), platform.machine())
        record = (info / "WHEEL").read_text(encoding="utf-8")
        (info / "WHEEL").write_text(re.sub(r"^Tag: .*$", f"Tag: py3-none-{tag}", record, flags=re.M), encoding="utf-8")
        args.dist.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "wheel", "pack", "--dest", args.dist, content], check=True,
                       stdout=subprocess.DEVNULL)
    (wheel,) = args.dist.glob(f"{content.name}-py3-none-{tag}.whl")
    print(f"{wheel} ({wheel.stat().st_size / 1e6:.0f} MB)")


if __name__ == "__main__":
    main()
