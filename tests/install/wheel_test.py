"""Makes the wheel of a build tree, installs it into an empty environment and uses it there without compilers.

With --abi stable it is the one for PyTorch's stable ABI, which has neither the lab nor the benchmarks.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))
from pages import blocks_of  # noqa: E402

# After the snippets of README: their gradients, and what needs other files of the package.
PACKAGE = """
assert q.grad.abs().sum() > 0 and table.grad.abs().sum() > 0
assert posenc.plot("bias", "alibi", length=16).svg.startswith("<svg")
assert "posenc view" in posenc.view(posenc.nn.Attention(8, 2, "rope"), torch.randn(3, 8)).html
print(posenc.__version__, posenc.__file__)
"""
SYSTEM = re.compile(r"(linux-vdso|lib(c|m|dl|pthread|rt|util|resolv|gcc_s|stdc\+\+)|.*ld-linux.*)\.so")


def snippets(root):
    """The Python of README as one program, each block after its setup."""
    lines = []
    for block in blocks_of(root, root / "README.md"):
        if block.language != "python" or not block.runs:
            continue
        if "setup" in block.notes:
            lines.append(f"import runpy; runpy.run_path({str(root / 'tests/docs/setup' / block.notes['setup'])!r})")
        lines.append(block.body)
    check(len(lines) >= 2, "README has no Python that runs")
    return "\n".join([*lines, PACKAGE])


@contextmanager
def built_explorer(dist):
    """The files of the explorer; a stand-in for them where `make web` has not run."""
    made = not dist.is_dir()
    if made:
        dist.mkdir(parents=True)
        (dist / "index.html").write_text("a stand-in for the explorer", encoding="utf-8")
    try:
        yield {str(path.relative_to(dist)): path.read_bytes() for path in dist.rglob("*") if path.is_file()}
    finally:
        if made:
            shutil.rmtree(dist)


class Environment:
    """A virtual environment that sees this interpreter's torch, and whose PATH has nothing but its own programs."""

    def __init__(self, folder):
        self.bin = folder / "bin"
        self.home = folder / "home"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", folder], check=True)
        self.home.mkdir()
        (self.package,) = (path / "posenc" for path in folder.glob("lib/python*/site-packages"))

    def install(self, wheel):
        subprocess.run([sys.executable, "-m", "pip", "--python", self.bin / "python", "install", "--quiet",
                        "--no-index", wheel], check=True)

    def run(self, *words, fails=False):
        """What a command prints. It has to succeed, or to fail."""
        done = subprocess.run([self.bin / words[0], *words[1:]], cwd=self.home, capture_output=True, text=True,
                              check=False, env={"PATH": str(self.bin), "HOME": str(self.home)})
        if fails != (done.returncode != 0):
            sys.exit(f"status {done.returncode} of {words}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr


def check(fine, *said):
    if not fine:
        sys.exit("\n".join(map(str, said)))


def check_wheel(wheel, version, needs_torch):
    """The name is honest: no file needs a glibc newer than the tag says."""
    named = re.fullmatch(rf"posenc-{version}-py3-none-manylinux_2_(\d+)_\w+\.whl", wheel.name)
    check(named, f"unexpected name {wheel.name}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        glibc = {int(minor) for name in names if re.search(r"/_(lib|bin)/", name)
                 for minor in re.findall(rb"GLIBC_2\.(\d+)\0", archive.read(name))}
        metadata = archive.read(f"posenc-{version}.dist-info/METADATA").decode()
    check(17 < max(glibc) <= int(named[1]), f"{wheel.name} needs glibc 2.{max(glibc)}")
    for line in ("License: MIT", "Requires-Python: >=3.9", "Classifier: License :: OSI Approved :: MIT License"):
        check(f"\n{line}\n" in metadata, f"METADATA lacks {line}")
    check(re.search(rf"^Requires-Dist: torch ?\(?{needs_torch}\)?$", metadata, re.M), metadata[:2000])
    check(any("licenses/libfmt" in name for name in names), "no licence of fmt")


def check_libraries(environment):
    """The program finds all that it needs in the package or in glibc and GCC."""
    lines = subprocess.run(["ldd", environment.package / "_bin/posenc"], check=True, capture_output=True, text=True,
                           env={"PATH": os.environ["PATH"]}).stdout.splitlines()
    foreign = [line for line in lines if str(environment.package) not in line and not SYSTEM.search(line)]
    check(len(lines) > 5 and not foreign, "not in the wheel:", *foreign)


def check_explorer(environment, files):
    folder = environment.package / "share/posenc/explorer"
    for name, content in files.items():
        check((folder / name).is_file() and (folder / name).read_bytes() == content, f"the wheel lacks explorer/{name}")


def check_programs(environment, version):
    said = environment.run("posenc", "--version")
    check(said.startswith(f"posenc {version} "), said)
    check("alibi" in environment.run("python", "-m", "posenc", "list", "--brief"), "posenc list --brief")
    for ending in ("svg", "png"):
        environment.run("posenc", "plot", "bias", "--encoding", "alibi", "-o", f"a.{ending}")
        check((environment.home / f"a.{ending}").stat().st_size > 1000, ending)
    config = environment.package / "share/posenc/configs/demo.yaml"
    environment.run("posenc", "train", config, "--out", "run", "--set", "train.steps=3", "--set", "eval.samples=8",
                    "--set", "train.batch=4")
    status = json.loads((environment.home / "run/status.json").read_text())
    check(status["state"] == "finished", status)
    environment.run("posenc", "bench", "--help")


def check_stable(environment):
    """The library alone, and older versions of torch are refused by name."""
    names = sorted(path.name for path in (environment.package / "_lib").glob("libposenc_*"))
    check(names == ["libposenc_torch_stable.so"], names)
    check(not list((environment.package / "_bin").glob("posenc-*")), "programs that need libtorch")
    older = "import torch; torch.__version__ = '2.9.0'; import posenc"
    said = environment.run("python", "-c", older, fails=True)
    check("needs PyTorch 2.10 or newer but this Python has 2.9.0" in said, said)


def check_other_torch(environment):
    """A torch that does not match is named before a symbol is missing."""
    record = environment.package / "_lib/built_for.json"
    built = json.loads(record.read_text())
    for changed, words in ({"torch": "2.3.1"}, "built for torch 2.3.1 with"), \
                          ({"cxx11_abi": not built["cxx11_abi"]}, "old C++ ABI"):
        record.write_text(json.dumps({**built, **changed}))
        said = environment.run("python", "-c", "import posenc", fails=True).strip().splitlines()[-1]
        check(said.startswith("ImportError: posenc was built for") and words in said, said)
    record.unlink()
    (environment.package / "_lib/libposenc_torch.so").write_bytes(b"not a library")
    said = environment.run("python", "-c", "import posenc", fails=True)
    check("ImportError: posenc's operators could not be loaded into torch" in said, said)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--abi", choices=("stable", "torch"), default="torch")
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    with built_explorer(args.root / "build/web/dist") as explorer:
        subprocess.run([sys.executable, args.root / "tools/wheel.py", args.build, args.work / "dist", "--abi", args.abi],
                       check=True)
    (wheel,) = (args.work / "dist").iterdir()
    check_wheel(wheel, args.version, r">=2\.10" if args.abi == "stable" else r"==\d+\.\d+\.\*")
    environment = Environment(args.work / "venv")
    environment.install(wheel)
    said = environment.run("python", "-c", snippets(args.root))
    check(said.splitlines()[-1].startswith(f"{args.version} {environment.package}"), said)
    if args.abi == "stable":
        check_stable(environment)
    else:
        check_libraries(environment)
        check_explorer(environment, explorer)
        check_programs(environment, args.version)
        check_other_torch(environment)
    print(f"fine: {wheel.name} installed and used without a compiler")


if __name__ == "__main__":
    main()
