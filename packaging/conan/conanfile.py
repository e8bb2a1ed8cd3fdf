"""A recipe for Conan 2: conan create packaging/conan. It packages the sources that it lies among."""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

PARTS = ("CMakeLists.txt", "CHANGELOG.md", "LICENSE", "cmake/*", "mezzo/*", "tests/emulated_card/*")


class Mezzo(ConanFile):
    name = "mezzo"
    description = "Mixed-precision training for C++"
    license = "Apache-2.0"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "command": [True, False], "system_libraries": [True, False]}
    default_options = {"shared": False, "command": True, "system_libraries": False}

    def set_version(self):
        sources = os.path.join(self.recipe_folder, "..", "..")
        self.version = re.search(r"project\(mezzo VERSION ([0-9.]+)", load(self, os.path.join(
            sources, "CMakeLists.txt"))).group(1)

    def export_sources(self):
        sources = os.path.join(self.recipe_folder, "..", "..")
        for part in PARTS:
            copy(self, part, sources, self.export_sources_folder)

    def requirements(self):
        if self.options.system_libraries:
            return
        self.requires("onednn/[>=2.6]")
        self.requires("highway/[>=1.0.3]")
        self.requires("onnx/[>=1.12]")
        self.requires("protobuf/[>=3.21]")
        self.requires("zlib/[>=1.2.11 <2]")
        self.requires("libjpeg/[>=9]")
        self.requires("libpng/[>=1.6 <2]")
        self.requires("pcre2/[>=10.40 <11]")
        self.requires("nlohmann_json/[>=3.11]", visible=False)
        if self.options.command:
            self.requires("fmt/[>=9]", visible=False)
            self.requires("cli11/[>=2.1]", visible=False)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["BUILD_SHARED_LIBS"] = bool(self.options.shared)
        toolchain.cache_variables["MEZZO_CLI"] = bool(self.options.command)
        toolchain.cache_variables["MEZZO_TESTS"] = False
        toolchain.cache_variables["MEZZO_EXAMPLES"] = False
        toolchain.cache_variables["MEZZO_CUDA"] = "OFF"
        toolchain.cache_variables["MEZZO_MPI"] = "OFF"
        toolchain.cache_variables["MEZZO_GLOO"] = "OFF"
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # mezzo's own mezzo-config.cmake says what a program links.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "mezzo")]
        self.cpp_info.libs = ["mezzo"]
