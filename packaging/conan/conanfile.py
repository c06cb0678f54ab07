"""Conan recipe of the tree that it lies in: the libraries, without PyTorch and the programs."""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class Posenc(ConanFile):
    name = "posenc"
    description = "Positional encodings in attention: framework-free CPU kernels with gradients, C++20 and C interfaces"
    license = "MIT"
    topics = ("attention", "transformer", "positional-encoding")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}

    def _root(self):
        return Path(self.recipe_folder).parent.parent

    def set_version(self):
        header = load(self, self._root() / "include/posenc/core/version.h")
        self.version = re.search(r'POSENC_VERSION_STRING "([^"]+)"', header).group(1)

    def export_sources(self):
        for part in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"):
            copy(self, part, self._root(), self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def validate(self):
        check_min_cppstd(self, 20)

    def requirements(self):
        self.requires("fmt/[>=9 <12]", transitive_headers=True)
        self.requires("yaml-cpp/[>=0.7 <1]")
        self.requires("highway/[>=1.0.3 <2]")
        self.requires("nlohmann_json/[>=3.10 <4]")

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for part in ("TORCH", "BUILD_CLI", "BUILD_TESTS", "BUILD_BENCHMARKS"):
            toolchain.cache_variables[f"POSENC_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        CMake(self).install()

    def package_info(self):
        # posenc installs a CMake package of its own.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/posenc"]
