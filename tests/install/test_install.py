#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The installed library, as another project's build finds it.

It is installed into a folder of its own; a C and a C++ program are built against
that by pkg-config and by find_package(cri), with the shared and the static library.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CONSUMER = os.path.join(HERE, "consumer")
WANTED = ('coap://example.org/a%2Fb?q\n'
          '[-1, ["example", "org"], ["a/b"], ["q"]]\n')
TIMEOUT_S = 120
SETTINGS = None


def run(*command, **environment):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, **environment}, timeout=TIMEOUT_S, check=False)
    output = done.stdout.decode()
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: status {done.returncode}\n{output}")
    return output


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="cri-install-")
        cls.stage = os.path.join(cls.work, "stage")
        run(SETTINGS.cmake, "--install", os.path.join(SETTINGS.build, "lib"), DESTDIR=cls.stage)
        cls.root = cls.stage + SETTINGS.prefix
        cls.libdir = os.path.join(cls.root, SETTINGS.libdir)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work)

    def pkg_config(self, *arguments):
        return run("pkg-config", *arguments, "libcri",
                   PKG_CONFIG_PATH=os.path.join(self.libdir, "pkgconfig"),
                   PKG_CONFIG_SYSROOT_DIR=self.stage).split()

    def compilers(self):
        """C and C++, each with the flags a warning-free header needs."""
        flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", *SETTINGS.flags.split()]
        return [("c", [SETTINGS.cc, "-std=c11", *flags, "-x", "c"]),
                ("c++", [SETTINGS.cxx, "-std=c++11", *flags, "-x", "c++"])]

    def test_pkg_config_shared(self):
        for name, compiler in self.compilers():
            with self.subTest(language=name):
                program = os.path.join(self.work, f"shared-{name}")
                run(*compiler, os.path.join(CONSUMER, "consumer.c"), "-x", "none",
                    "-o", program, *self.pkg_config("--cflags", "--libs"))
                self.assertEqual(run(program, LD_LIBRARY_PATH=self.libdir), WANTED)
                self.assertIn("libcri.so.0", run("readelf", "-d", program))

    def test_pkg_config_gives_no_flags_of_other_libraries(self):
        flags = self.pkg_config("--cflags")
        self.assertEqual(flags, [f"-I{self.root}/include"])
        self.assertEqual(self.pkg_config("--libs"), [f"-L{self.libdir}", "-lcri"])

    def test_versions_agree(self):
        source = os.path.join(self.work, "version.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <cri/version.h>\n#include <stdio.h>\n"
                       "int main(void) {\n"
                       "    if (cri_version() != CRI_VERSION) { return 1; }\n"
                       "    return printf(\"%s %s\", cri_version_text(), CRI_VERSION_TEXT) < 0;\n"
                       "}\n")
        program = os.path.join(self.work, "version")
        _, compiler = self.compilers()[0]
        run(*compiler, source, "-x", "none", "-o", program, *self.pkg_config("--cflags", "--libs"))
        version = self.pkg_config("--modversion")[0]
        self.assertEqual(run(program, LD_LIBRARY_PATH=self.libdir), f"{version} {version}")

    def test_every_exported_function_has_a_manual_page(self):
        library = os.path.join(self.libdir, "libcri.so")
        names = [line.split()[-1].partition("@")[0] for line in
                 run("nm", "-D", "--defined-only", library).splitlines()]
        pages = os.path.join(self.root, "share/man/man3")
        for name in names:
            if not name.startswith("LIBCRI"):
                self.assertTrue(os.path.exists(os.path.join(pages, f"{name}.3")), name)

    def test_the_symbol_map_has_each_name(self):
        # A pattern would export more than was meant.
        source = os.path.join(os.path.dirname(os.path.dirname(HERE)), "lib/libcri.map")
        with open(source, encoding="utf-8") as file:
            exported = file.read().split("global:")[1].split("local:")[0].split(";")
        for name in exported[:-1]:
            self.assertRegex(name.strip(), r"\Acri_[a-z0-9_]+\Z")

    def test_pkg_config_static(self):
        # Where there is only an archive, the linker takes that.
        archive = os.path.join(self.work, "archive")
        os.makedirs(archive, exist_ok=True)
        shutil.copy(os.path.join(self.libdir, "libcri.a"), archive)
        for name, compiler in self.compilers():
            with self.subTest(language=name):
                program = os.path.join(self.work, f"static-{name}")
                libs = [flag for flag in self.pkg_config("--static", "--libs")
                        if flag != f"-L{self.libdir}"]
                run(*compiler, os.path.join(CONSUMER, "consumer.c"), "-x", "none",
                    "-o", program, *self.pkg_config("--cflags"), f"-L{archive}", *libs)
                self.assertEqual(run(program), WANTED)
                self.assertNotIn("libcri.so", run("readelf", "-d", program))

    def test_find_package(self):
        build = os.path.join(self.work, "consumer")
        run(SETTINGS.cmake, "-S", CONSUMER, "-B", build, f"-DCMAKE_PREFIX_PATH={self.root}",
            f"-DCMAKE_C_COMPILER={SETTINGS.cc}", f"-DCMAKE_CXX_COMPILER={SETTINGS.cxx}",
            f"-DCMAKE_C_FLAGS={SETTINGS.flags}", f"-DCMAKE_CXX_FLAGS={SETTINGS.flags}")
        run(SETTINGS.cmake, "--build", build)
        for name in ("c_shared", "c_static", "cpp_shared", "cpp_static"):
            with self.subTest(program=name):
                self.assertEqual(run(os.path.join(build, name)), WANTED)

    def test_each_header_stands_alone(self):
        headers = sorted(glob.glob(os.path.join(self.root, "include/cri/*.h")))
        self.assertGreater(len(headers), 8)
        with open(os.path.join(CONSUMER, "consumer.c"), encoding="utf-8") as file:
            included = set(re.findall(r"<(cri/[a-z]+\.h)>", file.read()))
        for header in headers:
            name = "cri/" + os.path.basename(header)
            self.assertIn(name, included, "the consumer includes every header")
            source = os.path.join(self.work, "alone.c")
            with open(source, "w", encoding="utf-8") as file:
                file.write(f"#include <{name}>\n#include <{name}>\n")
            for language, compiler in self.compilers():
                with self.subTest(header=name, language=language):
                    run(*compiler, "-fsyntax-only", source, *self.pkg_config("--cflags"))

    def test_only_versioned_public_names_are_exported(self):
        library = os.path.join(self.libdir, "libcri.so")
        self.assertIn("Library soname: [libcri.so.0]", run("readelf", "-d", library))
        names = [line.split()[-1] for line in
                 run("nm", "-D", "--defined-only", library).splitlines()]
        public = [name for name in names if name != "LIBCRI_0"]
        self.assertGreater(len(public), 20)
        for name in public:
            self.assertRegex(name, r"\Acri_[a-z0-9][a-z0-9_]*@@LIBCRI_0\Z")
        declared = set()
        for header in glob.glob(os.path.join(self.root, "include/cri/*.h")):
            with open(header, encoding="utf-8") as file:
                text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
            for declaration in re.findall(r"CRI_API(?!\s*__)([^;{}]*?)\(", text):
                declared.add(declaration.split()[-1].lstrip("*"))
        self.assertEqual(declared, {name.split("@")[0] for name in public})


def main():
    global SETTINGS
    parser = argparse.ArgumentParser()
    for name in ("build", "cmake", "cc", "cxx", "prefix", "libdir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--flags", default="")
    SETTINGS = parser.parse_args()
    unittest.main(argv=["test_install.py"])


if __name__ == "__main__":
    main()
