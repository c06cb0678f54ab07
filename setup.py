"""pip install . : builds the operators with CMake and puts them next to the Python files.

Use --no-build-isolation, so that they are built against the torch that will load them. A build that is
already there is taken with POSENC_PREBUILT=<build>/python. MAX_JOBS bounds the compilers that run at a
time, and CMAKE_ARGS has further options for CMake.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
LIBRARY = "libposenc_torch.so"


def version():
    header = (ROOT / "include/posenc/core/version.h").read_text(encoding="utf-8")
    return ".".join(re.search(rf"POSENC_VERSION_{part} (\d+)", header).group(1)
                    for part in ("MAJOR", "MINOR", "PATCH"))


def torch_options():
    """Where CMake finds the torch of this interpreter; nothing for Debian's, which is in its place."""
    try:
        import torch
    except ImportError as missing:
        raise SystemExit("posenc: torch is needed to build; install it, and use "
                         "pip install --no-build-isolation") from missing
    prefix = Path(torch.utils.cmake_prefix_path)
    return [f"-DCMAKE_PREFIX_PATH={prefix}"] if (prefix / "Torch").is_dir() else []


def built_library():
    """The library, built here unless a build is named."""
    prebuilt = os.environ.get("POSENC_PREBUILT")
    if prebuilt:
        return Path(prebuilt) / "posenc/_lib" / LIBRARY
    build = ROOT / "build/pip"
    options = [f"-DPOSENC_{part}=OFF" for part in
               ("BUILD_TESTS", "BUILD_CLI", "BUILD_BENCHMARKS", "BUILD_CAPI", "INSTALL")]
    subprocess.run(["cmake", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release",
                    "-DPOSENC_TORCH=ON", *options, *torch_options(),
                    *shlex.split(os.environ.get("CMAKE_ARGS", ""))], check=True)
    subprocess.run(["cmake", "--build", str(build), "--target", "posenc_torch",
                    f"-j{os.environ.get('MAX_JOBS') or os.cpu_count()}"], check=True)
    return build / "lib" / LIBRARY


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        target = Path(self.build_lib) / "posenc/_lib"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(built_library(), target / LIBRARY)


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True  # the wheel belongs to a platform


setup(version=version(), cmdclass={"build_py": BuildWithLibrary}, distclass=BinaryDistribution)
