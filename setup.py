"""pip install . : builds the operators and the programs with CMake and puts them into the Python package.

Use --no-build-isolation, so that they are built against the torch that will load them. POSENC_PREBUILT=<build>
takes a build tree that is there; of the two libraries in it POSENC_ABI=torch or POSENC_ABI=stable takes one. MAX_JOBS bounds the compilers that run at a time, and CMAKE_ARGS has further
options for CMake, such as -DPOSENC_CUDA=ON. `make wheel` makes a wheel for other machines from this.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).parent
PREBUILT = os.environ.get("POSENC_PREBUILT")
ABI = os.environ.get("POSENC_ABI")
# What a package for the stable ABI leaves out: it is linked with libtorch's C++ symbols.
OF_LIBTORCH = ("libposenc_torch.so", "built_for.json", "posenc-lab", "posenc-bench", "posenc-train")


def version():
    header = (ROOT / "include/posenc/core/version.h").read_text(encoding="utf-8")
    return ".".join(re.search(rf"POSENC_VERSION_{part} (\d+)", header).group(1)
                    for part in ("MAJOR", "MINOR", "PATCH"))


def torch_here():
    try:
        import torch
    except ImportError as missing:
        raise SystemExit("posenc: torch is needed to build; install it, and use "
                         "pip install --no-build-isolation") from missing
    return torch


def torch_requirement():
    """The minor versions of torch differ in their C++ classes: the package needs the one it was built for, unless it uses
    the stable ABI."""
    if ABI == "stable":
        return "torch>=2.10"
    if PREBUILT:
        record = Path(PREBUILT) / "python/posenc/_lib/built_for.json"
        built = json.loads(record.read_text(encoding="utf-8"))["torch"]
    else:
        built = torch_here().__version__
    return "torch==" + ".".join(built.split(".")[:2]) + ".*"


def torch_options():
    """Where CMake finds the torch of this interpreter; nothing for Debian's, which is in its place."""
    prefix = Path(torch_here().utils.cmake_prefix_path)
    return [f"-DCMAKE_PREFIX_PATH={prefix}"] if (prefix / "Torch").is_dir() else []


def build():
    """Builds everything but tests and benchmarks, with the folders of the package; returns the build tree."""
    tree = ROOT / "build/pip"
    options = [f"-DPOSENC_{part}=OFF" for part in ("BUILD_TESTS", "BUILD_BENCHMARKS", "BUILD_CAPI")]
    subprocess.run(["cmake", "-S", str(ROOT), "-B", str(tree), "-DCMAKE_BUILD_TYPE=Release", "-DPOSENC_TORCH=ON",
                    "-DCMAKE_INSTALL_BINDIR=_bin", "-DCMAKE_INSTALL_LIBDIR=_lib",
                    "-DCMAKE_INSTALL_RPATH_USE_LINK_PATH=ON", *options, *torch_options(),
                    *shlex.split(os.environ.get("CMAKE_ARGS", ""))], check=True)
    subprocess.run(["cmake", "--build", str(tree), f"-j{os.environ.get('MAX_JOBS') or os.cpu_count()}"], check=True)
    return tree


def add_built(tree, package):
    """Copies the operators, the viewer, the programs, the configs and the explorer of a build tree into the package."""
    others = {"stable": OF_LIBTORCH, "torch": ("libposenc_torch_stable.so",)}.get(ABI or "", ())
    ignore = shutil.ignore_patterns(*others)
    for folder in ("_lib", "_view"):
        shutil.copytree(tree / "python/posenc" / folder, package / folder, ignore=ignore, dirs_exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cmake", "--install", str(tree), "--prefix", folder], check=True, stdout=subprocess.DEVNULL)
        for programs in Path(folder).glob("*bin"):  # none where the tree has operators alone
            shutil.copytree(programs, package / "_bin", ignore=ignore, dirs_exist_ok=True)
        if (Path(folder) / "share/posenc").is_dir():
            shutil.copytree(Path(folder) / "share/posenc", package / "share/posenc", dirs_exist_ok=True)
    shutil.copytree(ROOT / "configs", package / "share/posenc/configs", dirs_exist_ok=True)


class BuildWithPrograms(build_py):
    def run(self):
        super().run()
        add_built(Path(PREBUILT) if PREBUILT else build(), Path(self.build_lib) / "posenc")


class WheelOfAPlatform(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]  # no symbol of CPython is used


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True  # the wheel belongs to a platform


setup(version=version(), license="MIT", install_requires=[torch_requirement()], distclass=BinaryDistribution,
      cmdclass={"build_py": BuildWithPrograms, "bdist_wheel": WheelOfAPlatform})
