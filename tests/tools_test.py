#!/usr/bin/env python3
"""What tools/ decide: checks of MNIST, options of containers, faults that lint finds, ratios of the benchmark, the CRD."""
import argparse
import contextlib
import fcntl
import functools
import getpass
import gzip
import hashlib
import http.server
import importlib.machinery
import importlib.util
import io
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import unittest.mock

TOOLS = pathlib.Path(__file__).resolve().parent.parent / "tools"


def load(name):
    """A tool as a module; its file has no .py."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(TOOLS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
sys.path[:0] = [str(TOOLS / "bench"), str(TOOLS / "peers"), str(TOOLS.parent / "tests" / "e2e")]
lint = load("lint")
bench = load("bench/bench")
pipelines = load("bench/pipelines")
gen_api_reference = load("gen-api-reference")
fetch_mnist = load("fetch-mnist")
gen_crd = load("gen-crd")
yardstick = load("yardstick")
image_base = load("image-base")
image_records = load("image-records")
peer_image = load("peers/image")
aarch64 = load("../tests/aarch64/run")
e2e_cluster = load("../tests/e2e/cluster.py")
e2e_run = load("../tests/e2e/run")
import contestants  # noqa: E402
import job as e2e_job  # noqa: E402
import steps as e2e_steps  # noqa: E402
from scenarios import (elastic, failure, frameworks, helm, lifecycle, network_policy, parameter_servers,  # noqa: E402
                       strategies, upgrade)
from steps import Failure, Skipped, Steps  # noqa: E402


def temporary_folder(test):
    """One that is there until the test has ended."""
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    return pathlib.Path(folder.name)


def write_program(path, script):
    """A shell script in a tool's place; its folder is made if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class FetchMnistTest(unittest.TestCase):
    def setUp(self):
        folder = temporary_folder(self)
        self.source = folder / "source"
        self.destination = folder / "destination"
        self.source.mkdir()

    def fetch(self):
        return subprocess.run(
            [sys.executable, str(TOOLS / "fetch-mnist"), "--from", str(self.source),
             str(self.destination)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            check=False)

    def test_a_folder_without_the_files_is_named(self):
        result = self.fetch()
        self.assertEqual(1, result.returncode)
        self.assertIn("train-images-idx3-ubyte", result.stderr)

    def test_other_content_is_refused_and_nothing_is_left(self):
        for name in ("train-images", "t10k-images"):
            (self.source / f"{name}-idx3-ubyte.gz").write_bytes(gzip.compress(b"other"))
        for name in ("train-labels", "t10k-labels"):
            (self.source / f"{name}-idx1-ubyte").write_bytes(b"other")
        result = self.fetch()
        self.assertEqual(1, result.returncode)
        self.assertIn("SHA-256", result.stderr)
        self.assertEqual("", result.stdout)
        left = list(self.destination.iterdir()) if self.destination.exists() else []
        self.assertEqual([], left)

    def write_source(self, zipped):
        """Four small files, which are taken for the right ones."""
        content = {name: struct.pack(">IIII", 0x803, 1, 1, number) for number, name in enumerate(fetch_mnist.SUMS)}
        sums = unittest.mock.patch.object(fetch_mnist, "SUMS", {
            name: hashlib.sha256(data).hexdigest() for name, data in content.items()})
        sums.start()
        self.addCleanup(sums.stop)
        for name, data in content.items():
            if zipped:
                (self.source / f"{name}.gz").write_bytes(gzip.compress(data))
            else:
                (self.source / name).write_bytes(data)
        return content

    def fetch_right_files(self, source):
        """Returns what it has put into the destination, and what it printed."""
        printed = io.StringIO()
        arguments = ["fetch-mnist", "--from", source, str(self.destination)]
        with unittest.mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(printed), \
                contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(0, fetch_mnist.main())
        return {path.name: path.read_bytes() for path in self.destination.iterdir()}, printed.getvalue()

    def test_the_right_files_are_taken_from_a_folder_and_kept(self):
        for zipped in (True, False):
            with self.subTest(zipped=zipped):
                self.setUp()
                content = self.write_source(zipped)
                self.assertEqual((content, f"{self.destination}\n"), self.fetch_right_files(str(self.source)))
                for path in self.source.iterdir():
                    path.unlink()
                self.assertEqual((content, f"{self.destination}\n"), self.fetch_right_files(str(self.source)))

    def test_the_right_files_are_taken_from_a_mirror(self):
        for zipped in (True, False):
            with self.subTest(zipped=zipped):
                self.setUp()
                content = self.write_source(zipped)
                handler = functools.partial(QuietHandler, directory=self.source)
                with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
                    serving = threading.Thread(target=server.serve_forever)
                    serving.start()
                    try:
                        found, _ = self.fetch_right_files(f"http://127.0.0.1:{server.server_port}/")
                    finally:
                        server.shutdown()
                        serving.join()
                self.assertEqual(content, found)


class ApiReferenceTest(unittest.TestCase):
    def test_it_is_what_the_schema_says(self):
        done = subprocess.run([str(TOOLS / "gen-api-reference"), "--check"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_types_limits_and_rules_are_described(self):
        lines = gen_api_reference.section("spec", {
            "required": ["a"],
            "x-kubernetes-validations": [{"rule": "", "x-each": ["a", "b"], "fieldPath": ".EACH", "message": "no EACH"}],
            "properties": {
                "a": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9},
                "b": {"type": "array", "maxItems": 3, "default": [],
                      "items": {"type": "object", "properties": {"c": {"type": "string", "enum": ["X", "Y"]}}}},
            }})
        self.assertIn("| `a` | integer | required | above 0 to 9 |  |", lines)
        self.assertIn("| `b` | list of objects | `[]` | at most 3 entries |  |", lines)
        self.assertIn("- `b`: no b", lines)
        self.assertIn("## spec.b[]", lines)
        self.assertIn("| `c` | string |  | `X`, `Y` |  |", lines)


class BuildTest(unittest.TestCase):
    """With a cmake, a ninja and a compiler that do nothing but say so."""

    def setUp(self):
        self.folder = temporary_folder(self)
        (self.folder / "tools").mkdir()
        shutil.copy(TOOLS / "build", self.folder / "tools/build")
        self.dependencies = self.folder / "cmake/Dependencies.cmake"
        self.dependencies.parent.mkdir()
        shutil.copy(TOOLS.parent / "cmake/Dependencies.cmake", self.dependencies)
        self.cmake("touch build/release/build.ninja")
        self.program("ninja", "")
        self.program("c++", "echo compiler 12")

    def program(self, name, script):
        write_program(self.folder / "path" / name, script)

    def cmake(self, configure):
        self.program("cmake", f"""[ "$1" != --list-presets ] || {{ printf 'Presets:\\n  "release"\\n  "dev"\\n'; exit; }}
echo configured >>"$0.log"; {configure}""")

    def build(self, *arguments, deps="/deps", tree=None, code=0, user=None, **environment):
        done = subprocess.run([(tree or self.folder) / "tools/build", *(arguments or ("release", "1"))],
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, user=user,
                              env={"PATH": f"{self.folder}/path:/usr/bin:/bin", "LOCKSTEP_DEPS_DIR": deps, **environment})
        self.assertEqual(code, done.returncode, done.stderr)
        return done.stderr

    def configured(self):
        return len((self.folder / "path/cmake.log").read_text().splitlines())

    def test_what_was_made_here_is_kept(self):
        self.build()
        (self.folder / "build/release/object").touch()
        self.assertEqual("", self.build())
        self.assertEqual(1, self.configured())
        self.assertTrue((self.folder / "build/release/object").exists())

    def test_what_another_compiler_has_made_is_made_again(self):
        self.build()
        (self.folder / "build/release/object").touch()
        self.program("c++", "echo compiler 14")
        self.assertIn("compiler 14", self.build())
        self.assertEqual(2, self.configured())
        self.assertFalse((self.folder / "build/release/object").exists())

    def test_what_was_made_with_libraries_elsewhere_is_made_again(self):
        self.build()
        self.assertIn("/elsewhere", self.build(deps="/elsewhere"))
        self.assertEqual(2, self.configured())

    def test_what_was_made_when_libraries_were_looked_for_on_the_path_is_made_again(self):
        """CMake takes what it has found once, fmt of a conda environment say, before it looks anywhere."""
        rule, text = "CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF", self.dependencies.read_text()
        self.assertIn(f"\nset({rule})\n", text)
        self.dependencies.write_text(text.replace(f"set({rule})\n", ""))
        self.build()
        self.dependencies.write_text(text)
        self.assertIn(f",{rule}: it is made again", self.build())
        self.assertEqual(2, self.configured())
        self.dependencies.write_text(text + "# as before\n")
        self.assertEqual("", self.build())

    def test_what_an_interrupted_removal_has_left_is_not_built_on(self):
        self.build()
        (self.folder / "build/release/object").touch()
        self.program("c++", "echo compiler 14")
        self.program("rm", 'for last; do :; done; test ! -e "$last" || ! /bin/rm -f "$last/.made-with"')
        self.build(code=1)
        (self.folder / "path/rm").unlink()
        self.build()
        self.assertEqual(2, self.configured())
        self.assertFalse((self.folder / "build/release/object").exists())
        self.assertEqual(["release"], [path.name for path in (self.folder / "build").iterdir() if path.is_dir()])

    def test_the_build_of_another_tree_is_made_again(self):
        self.cmake('touch build/release/build.ninja; '
                   'echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/release/CMakeCache.txt')
        self.build()
        self.assertEqual("", self.build())
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, "copy")
            shutil.copytree(self.folder, copy)
            (copy / "build/release/object").touch()
            self.assertIn(f"was made of {self.folder}", self.build(tree=copy))
            self.assertFalse((copy / "build/release/object").exists())
        self.assertEqual(2, self.configured())

    def test_root_by_sudo_does_not_take_a_users_build_from_its_owner(self):
        """In a container or by CI, root may: there is nobody whom this locks out."""
        self.build()
        self.program("id", "echo 0")
        self.program("stat", 'case "$*" in *%U*) echo nadia ;; *) echo 1000 ;; esac')
        said = self.build(deps="/elsewhere", code=2, SUDO_UID="1000")
        self.assertEqual("build: found build/release of nadia, whom root would lock out of it: call make without sudo, in a "
                         "clone of root's own, or after `rm -rf build/release`\n", said)
        self.assertEqual(1, self.configured())
        self.build("dev", "1", SUDO_UID="1000")
        self.assertIn("it is made again", self.build(deps="/elsewhere"))
        self.assertIn("it is made again", self.build(SUDO_UID="1001"))

    def test_a_build_of_another_user_is_left_as_it_is(self):
        """It could be moved away, but not removed."""
        self.build()
        made = self.folder / "build/release"
        self.folder.chmod(0o777)
        self.folder.joinpath("build").chmod(0o777)
        made.chmod(0o555)
        said = self.build(deps="/elsewhere", code=2, user=None if os.getuid() else 65534)
        self.assertRegex(said, f"^build: found build/release of {getpass.getuser()}, expected one that .* may write to: ")
        self.assertTrue((made / ".made-with").exists())
        self.assertFalse(made.with_suffix(".old").exists())

    def test_wrong_arguments_are_named_and_make_no_folder(self):
        for arguments, said in ((["relaese"], "found preset 'relaese', expected one of: release dev"),
                                (["--configure", "--help"], "found preset '--help'"),
                                (["."], "found preset '.'"),
                                (["release", "lockstep"], "found 'lockstep' for JOBS"),
                                (["release", "0"], "found '0' for JOBS"),  # ninja's word for no limit
                                (["release", ""], "found '' for JOBS")):
            with self.subTest(arguments):
                self.assertIn(said, self.build(*arguments, code=2))
        self.assertEqual("", self.build("--help"))
        self.assertFalse((self.folder / "build").exists())
        self.build()
        self.assertIn("found preset 'release/'", self.build("release/", code=2))


class PresetsTest(unittest.TestCase):
    def test_a_build_without_tests_has_not_passed_them(self):
        folder = temporary_folder(self)
        shutil.copy(TOOLS.parent / "CMakePresets.json", folder)
        for preset in ("release", "dev", "asan", "tsan", "cuda"):
            (folder / "build" / preset).mkdir(parents=True)
            (folder / "build" / preset / "CTestTestfile.cmake").touch()
            done = subprocess.run(["ctest", "--preset", preset], cwd=folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            self.assertNotEqual(0, done.returncode, f"{preset}: {done.stdout}")
            self.assertIn("No tests were found", done.stdout, preset)


class DependenciesTest(unittest.TestCase):
    def test_no_library_is_taken_from_where_a_program_on_the_path_lies(self):
        """As of an active conda environment, which brings fmt and others of its own."""
        folder = temporary_folder(self)
        names = re.findall(r"^ *find_package\((\S+)", (TOOLS.parent / "cmake/Dependencies.cmake").read_text(), re.MULTILINE)
        self.assertIn("fmt", names)
        for name in names:
            config = folder / "conda/lib/cmake" / name / f"{name}Config.cmake"
            config.parent.mkdir(parents=True, exist_ok=True)
            config.write_text(f'message(FATAL_ERROR "{name} is taken from conda")\n')
        for program in ("protoc", "grpc_cpp_plugin"):
            write_program(folder / "conda/bin" / program, "exit 1")
        (folder / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.25)
project(probe LANGUAGES CXX)
include({TOOLS.parent}/cmake/Dependencies.cmake)
""")
        done = subprocess.run(["cmake", "-S", folder, "-B", folder / "build", "-DLOCKSTEP_ONEDNN=OFF", "-DLOCKSTEP_BUILD_TESTS=ON"],
                              text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "PATH": f"{folder}/conda/bin:{os.environ['PATH']}"})
        self.assertEqual(0, done.returncode, done.stdout)
        taken = [line for line in (folder / "build/CMakeCache.txt").read_text().splitlines() if "/conda/" in line]
        self.assertEqual([], taken)


LISTS = 3  # of wheels that `tools/setup peers` installs: TensorFlow, ONNX Runtime, JAX


class SetupTest(unittest.TestCase):
    """With a python3 whose environments hold a pip that writes down that it was called, and, as real ones, a
    link to it, by which it finds a pip only in the folder of its own version."""

    def setUp(self):
        self.folder = temporary_folder(self)
        self.program("uname", "echo x86_64")
        self.python("3.11")

    def program(self, name, script):
        write_program(self.folder / name, script)

    def python(self, version, folder=".", pip_exit=0, pip=":"):
        self.program(f"{folder}/python3", f"""case "$1" in
  -c) test -d "$(dirname "$0")/../lib/python{version}" ;;
  -m) mkdir -p "$3/bin" "$3/lib/python{version}"; ln -sf "$0" "$3/bin/python"
      echo "echo {version} >>{self.folder}/installed; {pip}; exit {pip_exit}" >"$3/bin/pip"; chmod a+x "$3/bin/pip" ;;
esac""")

    def start(self, part, path=""):
        return subprocess.Popen([TOOLS / "setup", part], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                env={"PATH": f"{path}{self.folder}:/usr/bin:/bin", "LOCKSTEP_SKIP_APT": "1",
                                     "LOCKSTEP_DEPS_DIR": str(self.folder / "deps")})

    def installed(self, path="", code=0, part="peers"):
        """The Pythons for which pip has installed something, one for each list of wheels."""
        setup = self.start(part, path)
        _, said = setup.communicate()
        self.assertEqual(code, setup.returncode, said)
        return (self.folder / "installed").read_text().split()

    def test_the_peers_are_installed_once(self):
        self.assertEqual(["3.11"] * LISTS, self.installed())
        self.assertEqual(["3.11"] * LISTS, self.installed())

    def test_of_each_wheel_pip_checks_the_sum(self):
        """pip itself refuses a requirement without an exact version or without sums then."""
        self.python("3.11", pip=r"case \$* in *\ --require-hashes\ *) ;; *) exit 9 ;; esac")
        self.assertEqual(["3.11"] * LISTS, self.installed())

    def test_of_two_at_once_the_second_waits(self):
        go, installed = self.folder / "go", self.folder / "installed"
        self.python("3.11", pip=f"while [ ! -e {go} ]; do sleep 0.02; done")
        first = self.start("python")
        while not installed.exists():  # its pip has begun
            self.assertIsNone(first.poll(), first.stderr)
            time.sleep(0.02)
        second = self.start("python")
        said = second.stderr.readline()
        go.touch()
        for setup in (first, second):
            self.assertEqual(0, setup.wait(), setup.stderr.read())
            setup.stderr.close()
        self.assertIn("waiting for another tools/setup", said)
        self.assertEqual(["3.11"], installed.read_text().split())

    def test_the_peers_of_another_debians_python_are_installed_again(self):
        self.installed()
        self.python("3.13")
        self.assertEqual(["3.11"] * LISTS + ["3.13"] * LISTS, self.installed())
        self.assertFalse((self.folder / "deps/peers/lib/python3.11").exists())

    def test_another_python_on_the_path_leaves_the_peers_as_they_are(self):
        self.installed()
        self.python("3.12", folder="conda")
        self.assertEqual(["3.11"] * LISTS, self.installed(path=f"{self.folder}/conda:"))

    def test_an_environment_into_which_nothing_could_be_installed_is_made_again(self):
        self.python("3.12", folder="conda", pip_exit=1)  # for which there are no wheels
        self.assertEqual(["3.12"], self.installed(path=f"{self.folder}/conda:", code=1))
        self.assertEqual(["3.12"] + ["3.11"] * LISTS, self.installed())

    def test_the_python_client_has_an_environment_of_its_own(self):
        self.assertEqual(["3.11"], self.installed(part="python"))
        self.assertEqual(["3.11"], self.installed(part="python"))
        self.assertEqual(["3.11"] * (1 + LISTS), self.installed())
        self.python("3.13")
        self.assertEqual(["3.11"] * (1 + LISTS) + ["3.13"], self.installed(part="python"))

    def test_the_python_client_is_left_out_where_there_are_no_wheels_for_it(self):
        self.program("uname", "echo aarch64")
        (self.folder / "installed").touch()
        self.assertEqual([], self.installed(part="python"))


def is_debian():
    release = pathlib.Path("/etc/os-release")
    return release.exists() and "\nID=debian\n" in release.read_text()


@unittest.skipUnless(is_debian(), "tools/setup takes packages from Debian only")
class SetupChartTest(unittest.TestCase):
    """tools/setup chart with the helms there, nothing installed, and an apt-get that has one package and writes
    down what it is asked."""

    def setUp(self):
        self.folder = temporary_folder(self)
        self.asked = self.folder / "asked"
        self.environment = {"PATH": f"{self.folder}/path:/usr/bin:/bin", "LOCKSTEP_DEPS_DIR": str(self.folder / "deps")}
        self.programs = pathlib.Path(subprocess.run(
            [TOOLS / "chart/programs.sh", "where"], check=True, text=True, stdout=subprocess.PIPE,
            env=self.environment).stdout.strip())
        for helm in ("helm3", "helm4", "helm-unittest"):
            write_program(self.programs / helm, "")
        pathlib.Path(subprocess.run(
            [TOOLS / "chart/programs.sh", "crds"], check=True, text=True, stdout=subprocess.PIPE,
            env=self.environment).stdout.strip()).mkdir(parents=True)
        package = self.folder / "package"
        for program in ("prometheus", "promtool"):
            write_program(package / "usr/bin" / program, f"echo {program} 2.42")
        (package / "DEBIAN").mkdir()
        (package / "DEBIAN/control").write_text(
            "Package: prometheus\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: x\n")
        subprocess.run(["dpkg-deb", "--build", package, self.folder / "prometheus_1_all.deb"], check=True,
                       stdout=subprocess.DEVNULL)
        write_program(self.folder / "path/dpkg-query", "")
        write_program(self.folder / "path/sudo", '[ "$1" != -n ] || shift; exec "$@"')
        for program in ("prometheus", "promtool"):  # whatever this machine has
            write_program(self.folder / "path" / program, "exit 1")
        write_program(self.folder / "path/apt-get", f"""echo "$*" >>{self.asked}
case " $* " in *" download prometheus ") cp {self.folder}/prometheus_1_all.deb . ;; esac""")

    def call(self):
        done = subprocess.run([TOOLS / "setup", "chart"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, env=self.environment)
        self.assertEqual(0, done.returncode, done.stderr)
        return self.asked.read_text()

    def test_no_server_is_installed(self):
        asked = self.call()
        self.assertRegex(asked, " install .*python3-yaml")
        self.assertNotRegex(asked, " install .*prometheus")
        for program in ("prometheus", "promtool"):
            said = subprocess.run([self.programs / program], check=True, text=True, stdout=subprocess.PIPE).stdout
            self.assertEqual(f"{program} 2.42\n", said)
        self.assertEqual(1, self.call().count(" download "), "it is there now")

    def test_those_of_this_machine_are_taken(self):
        for program in ("prometheus", "promtool"):
            write_program(self.folder / "path" / program, "")
        self.assertNotIn(" download ", self.call())


class WheelsTest(unittest.TestCase):
    def test_work_folders_are_removed_and_nothing_of_the_callers(self):
        folder = temporary_folder(self)
        kept = folder / "kept"
        kept.mkdir()
        script = """set -eu; . tools/wheels.sh
            new_work_folder; new_work_folder
            find "$DEPS_DIR" -mindepth 1 | wc -l"""
        environment = {**os.environ, "WORK": str(kept), "LOCKSTEP_DEPS_DIR": str(folder / "deps")}
        done = subprocess.run(["bash", "-c", script], cwd=TOOLS.parent, check=True, text=True,
                              stdout=subprocess.PIPE, env=environment)
        self.assertEqual("2", done.stdout.strip())
        self.assertTrue(kept.is_dir())
        self.assertEqual([], list((folder / "deps").iterdir()))


class CudaFromWheelsTest(unittest.TestCase):
    """With an nvcc that says its version, and a python3 without a network."""

    def setUp(self):
        self.folder = temporary_folder(self)
        write_program(self.folder / "bin/uname", "echo x86_64")
        write_program(self.folder / "bin/python3", f"echo \"$@\" >>{self.folder}/fetched; exit 1")

    def toolkit(self, path, release):
        write_program(self.folder / path / "bin/nvcc", f"echo 'Cuda compilation tools, release {release}, V{release}.1'")

    def call(self, *arguments, path="", tool="cuda-from-wheels", **environment):
        return subprocess.run(
            [str(TOOLS / tool), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
            env={"PATH": f"{path}{self.folder}/bin:/usr/bin:/bin", "LOCKSTEP_DEPS_DIR": str(self.folder / "deps"),
                 "LOCKSTEP_SKIP_APT": "1", **environment})

    def put_wheels(self):
        """What an earlier call has unpacked; returns the toolkit's folder and the libraries'."""
        found = [pathlib.Path(re.search(r" to (\S+)$", self.call(*arguments).stderr, re.MULTILINE).group(1))
                 for arguments in ((), ("--libraries",))]
        (self.folder / "fetched").unlink()
        write_program(found[0] / "bin/nvcc", "echo release 13.0")
        write_program(found[0] / "nvvm/bin/cicc", "")
        for header in ("cuda.h", "crt/host_config.h", "cccl/nv/target"):
            (found[0] / "include" / header).parent.mkdir(parents=True, exist_ok=True)
            (found[0] / "include" / header).touch()
        (found[1] / "lib").mkdir(parents=True)
        for name in ("cudnn", "cublasLt", "nvrtc", "nccl"):
            (found[1] / f"lib/lib{name}.so").touch()
        (found[1] / "licenses").mkdir()
        for name in ("cudnn-cu13", "cublas", "cuda-nvrtc", "nccl-cu13"):
            (found[1] / f"licenses/nvidia-{name}").touch()
        return [f"{folder}\n" for folder in found]

    def test_a_system_toolkit_that_is_new_enough_is_taken(self):
        self.toolkit("old", "12.6")
        self.toolkit("new", "12.8")
        wheels, _ = self.put_wheels()
        for path, home, expected in (("new", None, f"{self.folder}/new\n"), ("old", "new", f"{self.folder}/new\n"),
                                     ("new", "old", f"{self.folder}/new\n"), ("old", None, wheels)):
            with self.subTest(path=path, home=home):
                environment = {"CUDA_HOME": str(self.folder / home)} if home else {}
                done = self.call("--find", path=f"{self.folder}/{path}/bin:", **environment)
                self.assertEqual(expected, done.stdout, done.stderr)

    def test_what_is_there_is_not_fetched_again(self):
        toolkit, libraries = self.put_wheels()
        for arguments, expected in (((), toolkit), (("--libraries",), libraries)):
            self.assertEqual(expected, self.call(*arguments).stdout)
            self.assertEqual(expected, self.call("--find", *arguments).stdout)
        self.assertEqual(0, self.call("nvcc", tool="setup").returncode)
        self.assertFalse((self.folder / "fetched").exists())

    def test_what_is_not_there_is_fetched_unless_only_asked_for(self):
        for arguments in ((), ("--libraries",)):
            done = self.call("--find", *arguments)
            self.assertEqual((1, "", ""), (done.returncode, done.stdout, done.stderr))
        self.assertFalse((self.folder / "fetched").exists())
        done = self.call()
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("python3 could not make a virtual environment", done.stderr)
        self.assertTrue((self.folder / "fetched").exists())
        self.assertEqual([], list((self.folder / "deps").iterdir()))

    def test_another_processor_needs_a_toolkit_of_its_own(self):
        write_program(self.folder / "bin/uname", "echo aarch64")
        self.assertIn("found a aarch64 processor", self.call().stderr)
        done = self.call("nvcc", tool="setup")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("the test that needs nvcc is skipped", done.stderr)
        self.toolkit("new", "13.0")
        self.assertEqual(f"{self.folder}/new\n", self.call(path=f"{self.folder}/new/bin:").stdout)


class RunUnittestTest(unittest.TestCase):
    def code_for(self, *methods):
        folder = temporary_folder(self)
        lines = ["import unittest", "class SomeTest(unittest.TestCase):", " x = 1", *(f" {method}" for method in methods)]
        (folder / "some_test.py").write_text("\n".join(lines))
        return subprocess.run([sys.executable, TOOLS.parent / "tests/support/run_unittest", "some_test"], cwd=folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode

    def test_ctest_learns_that_every_test_was_skipped(self):
        good, bad = "def test_good(self): pass", "def test_bad(self): self.fail()"
        skipped = "def test_skipped(self): self.skipTest('for want of something')"
        class_skipped = "def setUpClass(): raise unittest.SkipTest('for want of something')"
        for code, methods in ((0, [good]), (0, [good, skipped]), (77, [skipped]), (77, [class_skipped, good]),
                              (1, [bad, skipped]), (1, [bad]), (1, [])):
            with self.subTest(methods):
                self.assertEqual(code, self.code_for(*methods))


class PeerImageTest(unittest.TestCase):
    def python_of(self, release):
        done = argparse.Namespace(stdout=f"{release}\n")
        with unittest.mock.patch.object(peer_image.subprocess, "run", return_value=done):
            return peer_image.python_of("registry.example/debian:x")

    def test_the_wheels_are_those_of_the_base_images_python(self):
        for release, python in (("bookworm", "3.11"), ("trixie", "3.13")):
            self.assertEqual(python, self.python_of(release))
            for name, image in peer_image.IMAGES.items():
                required = peer_image.requirements(image, python)
                self.assertIn("\nnumpy==", required, name)
                self.assertNotIn("python_version", required, name)
            self.assertIn(python, peer_image.packages_of(python))
        written = peer_image.DOCKERFILE.format(base="debian:x", packages=peer_image.packages_of("3.13"))
        self.assertIn("FROM debian:x\n", written)
        self.assertIn(" /usr/local/lib/python3.13/dist-packages ", written)

    def test_another_base_image_is_named(self):
        with self.assertRaises(SystemExit) as refused:
            self.python_of("noble")
        self.assertIn("found release 'noble' in registry.example/debian:x", refused.exception.code)


@unittest.skipUnless(os.geteuid() == 0, "tests/e2e/debian/run is for root")
class DebianRunTest(unittest.TestCase):
    """With a git that lists no files, and an unshare that runs nothing but writes the log of a replica."""

    FIRST_STEP = '{"time":"2100-01-01T00:00:00.5Z","message":"first step of the generation"}'

    def call(self, log):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "root").mkdir()
            for name, script in (("debootstrap", ""), ("git", ""), ("unshare", f"""logs=$8/lockstep/runs/mnist/logs/mnist-chief-0
[ "$9" != "make run" ] || {{ mkdir -p $logs; echo '{log}' >$logs/0.log; }}""")):
                write_program(pathlib.Path(folder, name), script)
            return subprocess.run([TOOLS / "../tests/e2e/debian/run", "--root", f"{folder}/root", "12"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                                  env={**os.environ, "PATH": f"{folder}:/usr/bin:/bin"})

    def test_the_first_step_is_timed(self):
        done = self.call(self.FIRST_STEP)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r"make run to its first step: \d+\.\d s")

    def test_a_run_without_a_step_does_not_pass(self):
        done = self.call('{"message":"nothing"}')
        self.assertNotEqual(0, done.returncode, done.stderr)
        self.assertNotIn("passed", done.stderr)


class ImageRecordsTest(unittest.TestCase):
    BASE = """Package: base-files
Status: install ok installed
Architecture: amd64
Version: 12.4+deb12u1

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""

    def setUp(self):
        self.folder = temporary_folder(self)
        (self.folder / "status").write_text(self.BASE)

    def run_tool(self, rootfs, *libraries, headers=()):
        (self.folder / "headers").write_text("".join(f"{path}\n" for path in headers))
        return subprocess.run(
            [str(TOOLS / "image-records"), str(self.folder / rootfs), "--name", "lockstep-x",
             "--version", "1.2", "--created", "2026-01-31T12:00:00Z", "--deps-dir", str(self.folder / "deps"),
             "--base-status", str(self.folder / "status"), "--headers", str(self.folder / "headers")],
            input="".join(f"{pathlib.Path(library).name} {library}\n" for library in libraries),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)

    def library_of(self, package):
        listed = subprocess.run(["dpkg-query", "-L", package], check=True, text=True,
                                stdout=subprocess.PIPE).stdout.splitlines()
        return next(path for path in listed if ".so." in path and pathlib.Path(path).is_file())

    def test_each_package_has_its_record_its_licence_and_a_place_in_the_bill(self):
        wheel = self.folder / "deps/onednn-2023.2.0/lib/libdnnl.so.3"
        wheel.parent.mkdir(parents=True)
        wheel.touch()
        (wheel.parent.parent / "licence").write_text("Apache")
        done = self.run_tool("root", self.library_of("zlib1g"), wheel)
        self.assertEqual(0, done.returncode, done.stderr)
        record = (self.folder / "root/var/lib/dpkg/status.d/zlib1g").read_text()
        self.assertIn("Package: zlib1g\n", record)
        self.assertNotIn("\n\n", record)
        for path in ("zlib1g/copyright", "onednn-cpu-gomp/copyright", "lockstep/LICENSE"):
            self.assertTrue((self.folder / "root/usr/share/doc" / path).stat().st_size, path)
        bill = json.loads((self.folder / "root/usr/share/lockstep/lockstep-x.spdx.json").read_text())
        names = [package["name"] for package in bill["packages"]]
        self.assertEqual(["lockstep-x", "base-files", "onednn-cpu-gomp", "zlib1g"], names)
        self.assertEqual({package["SPDXID"] for package in bill["packages"]},
                         {edge["relatedSpdxElement"] for edge in bill["relationships"]})
        locators = [reference["referenceLocator"] for package in bill["packages"]
                    for reference in package.get("externalRefs", [])]
        self.assertIn("pkg:deb/debian/base-files@12.4%2Bdeb12u1?arch=amd64", locators)
        self.assertIn("pkg:pypi/onednn-cpu-gomp@2023.2.0", locators)

    def test_a_package_of_headers_alone_is_compiled_in(self):
        """Of zlib's headers, the library is there; the base has the C library's."""
        (self.folder / "status").write_text(self.BASE + "\nPackage: libc6\nSource: glibc (2.36-9)\n"
                                            "Status: install ok installed\nArchitecture: amd64\nVersion: 2.36\n")
        done = self.run_tool("root", self.library_of("zlib1g"), headers=(
            "/usr/include/nlohmann/json.hpp", "/usr/include/CLI/CLI.hpp", "/usr/include/zlib.h", "/usr/include/stdio.h",
            "/usr/include/linux/types.h", str(TOOLS.parent / "base/check.h")))
        self.assertEqual(0, done.returncode, done.stderr)
        bill = json.loads((self.folder / "root/usr/share/lockstep/lockstep-x.spdx.json").read_text())
        self.assertEqual(["lockstep-x", "base-files", "libc6", "libcli11-dev", "nlohmann-json3-dev", "zlib1g"],
                         [package["name"] for package in bill["packages"]])
        for package in ("libcli11-dev", "nlohmann-json3-dev"):
            for path in (f"var/lib/dpkg/status.d/{package}", f"usr/share/doc/{package}/copyright"):
                self.assertTrue((self.folder / "root" / path).stat().st_size, path)

    def test_equal_input_gives_equal_files(self):
        bills = []
        for rootfs in ("one", "two"):
            self.assertEqual(0, self.run_tool(rootfs, self.library_of("zlib1g")).returncode)
            bills.append((self.folder / rootfs / "usr/share/lockstep/lockstep-x.spdx.json").read_bytes())
        self.assertEqual(bills[0], bills[1])

    def test_a_library_of_nobody_is_refused_by_name(self):
        stray = self.folder / "libstray.so.1"
        stray.touch()
        done = self.run_tool("root", stray)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("libstray.so.1 comes from", done.stderr)


class DebianImage:
    """An image of a few files, as `docker export` prints it."""

    # Where packages say that their files are; since Debian 12 bin and lib are links into usr.
    FILES = {"libc6": "/lib/x86_64-linux-gnu/libc.so.6", "dash": "/bin/dash", "coreutils": "/bin/ls",
             "libgmp10": "/usr/share/doc/libgmp10/copyright", "apt": "/usr/bin/apt"}
    DEPENDS = {"coreutils": "Pre-Depends: libc6 (>= 2.34), libgmp10 (>= 2:6.2) | libmpir\nDepends: libselinux1\n",
               "libselinux1": "Depends: libpcre2-8-0:any, zlib1g (>= 1:1.1.4)\n", "libc6": "Depends: libgcc-s1\n",
               "tzdata": "Depends: debconf (>= 0.5) | debconf-2.0\n"}
    LIBRARIES = ("libgmp10", "libselinux1", "libpcre2-8-0", "zlib1g")  # what coreutils loads
    OTHERS = ("apt", "debconf", "libapt-pkg6.0", "libgcc-s1")

    def __init__(self, path, without="", libc="1"):
        packages = [name for name in (*image_base.KEPT, *self.LIBRARIES, *self.OTHERS) if name != without]
        status = "\n".join(self.record(name, libc if name == "libc6" else "1") for name in packages)
        with tarfile.open(path, "w") as tar:
            for name, text in (("var/lib/dpkg/status", status), ("etc/passwd", "root:x:0:0::/root:/bin/sh\n"),
                               ("etc/group", "root:x:0:\n"), ("etc/nsswitch.conf", "hosts: files dns\n")):
                self.add(tar, name, text)
            for name in packages:
                listed = ["/.", *filter(None, [self.FILES.get(name)])]
                self.add(tar, f"var/lib/dpkg/info/{name}.list", "\n".join(listed) + "\n")
                for file in listed[1:]:
                    self.add(tar, image_base.inside(file), name, mode=0o6755)

    def record(self, name, version):
        return (f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n"
                f"{self.DEPENDS.get(name, '')}Conffiles:\n /etc/x 0123\n")

    @staticmethod
    def add(tar, path, text, mode=0o644):
        member = tarfile.TarInfo(path)
        member.size, member.mode = len(text.encode()), mode
        tar.addfile(member, io.BytesIO(text.encode()))


class ImageBaseTest(unittest.TestCase):
    def setUp(self):
        self.folder = temporary_folder(self)
        self.rootfs = self.folder / "rootfs"

    def make(self, without="", umask=0o022):
        DebianImage(self.folder / "tar", without)
        return self.make_of_tar(umask)

    def make_of_tar(self, umask=0o022):
        self.rootfs.mkdir(mode=0o755)
        return subprocess.run([str(TOOLS / "image-base"), str(self.folder / "tar"), str(self.rootfs)],
                              stderr=subprocess.PIPE, text=True, check=False, umask=umask)

    def test_what_a_program_needs_is_kept_and_nothing_else(self):
        done = self.make()
        self.assertEqual(0, done.returncode, done.stderr)
        for path, text in (("lib/x86_64-linux-gnu/libc.so.6", "libc6"), ("bin/dash", "dash"),
                           ("usr/share/doc/libgmp10/copyright", "libgmp10")):
            self.assertEqual(text, (self.rootfs / path).read_text())
        self.assertEqual(0o755, (self.rootfs / "usr/bin/ls").stat().st_mode & 0o7777)
        self.assertIn("nonroot:x:65532:65532:", (self.rootfs / "etc/passwd").read_text())
        self.assertEqual("hosts: files dns\n", (self.rootfs / "etc/nsswitch.conf").read_text())
        self.assertFalse(list(self.rootfs.glob("**/*apt*")))

    def test_a_link_of_the_image_leads_nowhere_else(self):
        """In which a package has a link to another folder, and a file, a link, a folder or a record below it."""

        def link(tar, path, target, kind=tarfile.SYMTYPE):
            member = tarfile.TarInfo(path)
            member.type, member.linkname = kind, target
            tar.addfile(member)

        for below in ("file", "link", "hard link", "folder", "record"):
            with self.subTest(below=below):
                self.setUp()
                image = DebianImage(self.folder / "tar")
                outside = self.folder / "outside"
                outside.mkdir(mode=0o750)
                (outside / "file").write_text("another's")
                path = "var/lib/dpkg/status.d" if below == "record" else "usr/bin/evil"
                listed = ["/.", f"/{path}", "/usr/bin/evil/new"]
                with tarfile.open(self.folder / "tar", "a") as tar:
                    link(tar, path, str(outside))
                    if below == "file":
                        image.add(tar, "usr/bin/evil/new", "owned")
                    elif below == "link":
                        link(tar, "usr/bin/evil/new", "/")
                    elif below == "hard link":
                        listed = ["/.", f"/{path}", "/usr/bin/copy"]
                        link(tar, "usr/bin/copy", "usr/bin/evil/file", tarfile.LNKTYPE)
                    elif below == "folder":
                        link(tar, "usr/bin/evil/new", "", tarfile.DIRTYPE)
                    image.add(tar, "var/lib/dpkg/info/base-files.list", "\n".join(listed) + "\n")
                done = self.make_of_tar()
                self.assertEqual(1, done.returncode, done.stderr)
                self.assertIn("expected a path within ROOTFS", done.stderr)
                self.assertEqual(["file"], [path.name for path in outside.iterdir()])
                self.assertEqual(1, (outside / "file").stat().st_nlink)
                self.assertEqual(0o750, outside.stat().st_mode & 0o7777)

    def test_a_callers_umask_keeps_nothing_from_the_user_in_the_container(self):
        self.make(umask=0o077)
        closed = [str(path) for path in self.rootfs.rglob("*") if not path.is_symlink() and
                  not path.stat().st_mode & 0o004]
        self.assertEqual([], closed)

    def test_each_package_has_its_record(self):
        self.make()
        records = {path.name: path.read_text() for path in (self.rootfs / "var/lib/dpkg/status.d").iterdir()}
        self.assertEqual({*image_base.KEPT, *DebianImage.LIBRARIES}, set(records))
        self.assertEqual("Package: dash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n",
                         records["dash"])

    def test_an_image_without_a_needed_package_is_refused_by_name(self):
        done = self.make(without="coreutils")
        self.assertNotEqual(0, done.returncode)
        self.assertIn("found no package coreutils", done.stderr)


def os_release(folder, codename):
    """The path of a file like /etc/os-release, which this writes."""
    path = folder / "os-release"
    path.write_text(f'NAME="Debian GNU/Linux"\nVERSION_CODENAME={codename}\n' if codename else "NAME=Arch\n")
    return str(path)


class ImagesTest(unittest.TestCase):
    """With a Docker engine that has one image of Debian and makes nothing of it, and programs of no content. None of
    them leaves a container."""

    PROGRAMS = {
        "uname": "echo x86_64",
        "docker": 'case "$1" in build) [ -z "${*##*$DOCKER_WANTS*}" ] ;; '
                  'image) [ -z "${*##*RepoDigests*}" ] && echo "$DOCKER_DIGESTS"; true ;; '
                  'create) echo 1; touch "$0.1"; [ -z "${*##*$DOCKER_CREATES*}" ] ;; '
                  'export) cp "$0.tar" "$3" ;; rm) rm "$0.$2" ;; esac',
        "cmake": "",
        "ldd": "",
        "ninja": 'case "$*" in *" inputs "*) echo a.o ;; *" deps a.o") echo "    /usr/include/a.h" ;; esac',
        "readelf": "echo '  0x0010:   Name: GLIBC_2.4  Flags: none'; echo '  0x0020:   Name: GLIBC_2.38  Flags: none'",
    }

    def make(self, libc, *arguments, other=None, wants="", release="bookworm", digests="", creates=""):
        """With the image's root file system for arm64 there already, if it was made of `other`. The engine builds only
        if its arguments have what it `wants`, and makes a container only of what `creates` names. It knows the base by
        `digests`, as one that came from a registry."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            if other:
                stage = folder / "build/images/trainer"
                (stage / "rootfs-arm64").mkdir(parents=True)
                (stage / "made-of-arm64").write_text(other + "\n")
            for program, script in self.PROGRAMS.items():
                write_program(folder / "path" / program, script)
            if libc:
                DebianImage(folder / "path/docker.tar", libc=libc)
            write_program(folder / "build/release/bin/lockstep-trainer", "")
            for path in ("tools/images", "tools/image-base", "tools/kube/base-image.sh", "docker/trainer/Dockerfile",
                         "CMakeLists.txt"):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(TOOLS.parent / path, folder / path)
            write_program(folder / "tools/image-records",
                          'while [ "$1" != --headers ]; do shift; done; grep -q /usr/include/a.h "$2"')
            done = subprocess.run([folder / "tools/images", *arguments, "trainer"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, check=False,
                                  env={"PATH": f"{folder}/path:/usr/bin:/bin", "HOME": name, "DOCKER_WANTS": wants,
                                       "DOCKER_DIGESTS": digests, "DOCKER_CREATES": creates,
                                       "OS_RELEASE": os_release(folder, release)})
            self.assertFalse((folder / "path/docker.1").exists(), "a container is left")
            return done

    def test_a_program_and_the_c_library_that_it_was_linked_with_make_an_image(self):
        done = self.make("2.38-1")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("lockstep-trainer:", done.stdout)
        self.assertRegex(done.stderr, r"images: lockstep-trainer:\S+: 0\.0 MB\n")

    def test_an_image_of_another_tag_is_of_the_same_version(self):
        done = self.make("2.38-1", "--tag", "0.0.1-g123", wants=f" VERSION={e2e_cluster.VERSION} ")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual("lockstep-trainer:0.0.1-g123\n", done.stdout)

    def test_make_gives_images_the_tag(self):
        for target in ("images", "images-cuda", "images-arm64"):
            for tag, expected in (("x", True), ("", False)):
                with self.subTest(target, tag=tag):
                    done = subprocess.run(["make", "-n", "-C", TOOLS.parent, target, f"TAG={tag}"], stdout=subprocess.PIPE,
                                          text=True, check=True)
                    said = re.search("tools/images .*", done.stdout).group()
                    (self.assertIn if expected else self.assertNotIn)("--tag x", said)

    def test_the_scenarios_images_have_no_prefix(self):
        """One may be exported for other calls. A cluster is given lockstep-operator and lockstep-trainer."""
        folder = temporary_folder(self)
        shutil.copy(TOOLS.parent / "Makefile", folder)
        for program in ("tools/setup", "tools/build", "tools/kube/docker-engine.sh", "tests/e2e/images_test", "tests/e2e/run"):
            write_program(folder / program, "")
        write_program(folder / "tools/images", f'echo "[$IMAGE_PREFIX]" >>{folder}/prefixes')
        for given in ([], ["IMAGE_PREFIX=registry.example/"]):
            subprocess.run(["make", "-s", "-C", folder, "e2e", *given], check=True,
                           env={**os.environ, "IMAGE_PREFIX": "registry.example/"})
        self.assertEqual(["[]", "[]"], (folder / "prefixes").read_text().split())

    def test_how_to_make_one_image_of_both_architectures_is_printed_once_both_are_there(self):
        done = self.make("2.38-1", other=f"version {e2e_cluster.VERSION}, revision unknown")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("docker buildx build --platform linux/amd64,linux/arm64 --build-arg "
                      f"VERSION={e2e_cluster.VERSION} --tag lockstep-trainer:{e2e_cluster.VERSION} --push build/images/trainer\n",
                      done.stderr)
        self.assertNotIn("buildx", self.make("2.38-1").stderr)
        done = self.make("2.38-1", other="version 0.0.9, revision unknown")
        self.assertNotIn("buildx", done.stderr)
        self.assertIn("rootfs-arm64 is of version 0.0.9, revision unknown, this one of version "
                      f"{e2e_cluster.VERSION}, revision unknown", done.stderr)

    def test_no_layer_of_an_earlier_build_is_taken_if_that_is_asked_for(self):
        self.assertEqual(0, self.make("2.38-1", "--no-cache", wants=" --no-cache ").returncode)
        self.assertEqual(1, self.make("2.38-1", wants=" --no-cache ").returncode)

    def test_a_base_with_an_older_c_library_is_refused(self):
        done = self.make("2.36-9+deb12u14")
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertEqual("", done.stdout)
        self.assertIn("found glibc 2.36 in debian:bookworm-slim, expected 2.38 or later", done.stderr)

    def test_a_base_that_cannot_be_exported_is_a_failure(self):
        self.assertEqual(1, self.make(libc=None).returncode)

    def test_a_base_of_a_registry_is_taken_and_named_by_its_digest(self):
        """Its tag may move to another image meanwhile, and who has the image must know what it was made of."""
        pinned = f"debian@sha256:{64 * '1'}"
        done = self.make("2.38-1", digests=pinned, creates=f" {pinned} ",
                         wants=f"org.opencontainers.image.base.digest=sha256:{64 * '1'} ")
        self.assertEqual(0, done.returncode, done.stderr)

    def test_the_base_is_of_the_release_on_which_the_programs_were_linked(self):
        for release, base in (("bookworm", "debian:bookworm-slim"), ("trixie", "debian:trixie-slim")):
            done = self.make("2.41-1", wants=f"org.opencontainers.image.base.name={base} ", release=release)
            self.assertEqual(0, done.returncode, done.stderr)


class ImageCheckTest(unittest.TestCase):
    """tests/e2e/images_test with an engine in which all is well with an image, but for what a test says."""

    IMAGE = "lockstep-trainer:0.1.0"
    FILES = ("usr/share/doc/nlohmann-json3-dev/copyright", "usr/share/doc/libcli11-dev/copyright",
             "var/lib/dpkg/status.d/libgrpc++1.51")
    PACKAGES = ("lockstep-trainer", "libc6", "libgrpc++1.51", "nlohmann-json3-dev", "libcli11-dev")

    def call(self, *faults, image=IMAGE, megabytes=1):
        """(its exit code, what it printed, what is left in the engine). A fault is a case of the engine's."""
        folder = temporary_folder(self)
        engine = folder / "engine"
        engine.mkdir()
        (folder / "bill.json").write_text(json.dumps({"packages": [{"name": name} for name in self.PACKAGES]}))
        with tarfile.open(folder / "image.tar", "w") as tar:
            for name in self.FILES:
                DebianImage.add(tar, name, "")
            program = tarfile.TarInfo("usr/local/bin/lockstep-trainer")
            program.size = megabytes * 1000000
            with open("/dev/zero", "rb") as zeros:
                tar.addfile(program, zeros)
        cases = (*faults, '"run "*--version) echo 0.1.0', '"run "*--help) echo Usage', f'"run "*.spdx.json) cat {folder}/bill.json',
                 '"run "*)', '"image inspect "*User*) echo 65532:65532', '"image inspect "*image.version*) echo 0.1.0',
                 '"image inspect "*base.name*) echo debian:test', '"image inspect "*Id*) echo "$5 $4"',
                 '"image inspect "*)', f'create*) touch {engine}/container; echo container',
                 f'export*) cat {folder}/image.tar', f'"rm container") rm {engine}/container', f'"image rm again/{image.rpartition("/")[2]}") rm {engine}/again')
        write_program(folder / "path/docker", 'case "$*" in\n' + " ;;\n".join(cases) + " ;;\nesac")
        write_program(folder / "tools/images", f"touch {engine}/again")
        write_program(folder / "path/git", "exit 1")
        (folder / "tests/e2e").mkdir(parents=True)
        shutil.copy(TOOLS.parent / "tests/e2e/images_test", folder / "tests/e2e")
        done = subprocess.run([folder / "tests/e2e/images_test", image], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False,
                              env={"PATH": f"{folder}/path:/usr/bin:/bin", "BASE_IMAGE": "debian:test", "TMPDIR": str(folder)})
        return done.returncode, done.stdout, [path.name for path in engine.iterdir()]

    def test_an_image_with_which_all_is_well_passes_and_nothing_is_left(self):
        self.assertEqual((0, f"images_test: {self.IMAGE}: ok, 1 MB\n", []), self.call())

    def test_an_images_size_is_that_of_its_files_whatever_an_engine_counts(self):
        """Docker's of 29.8 counts packed layers and unpacked ones, those of 29.0 to 29.7 packed ones alone."""
        self.assertEqual((0, f"images_test: {self.IMAGE}: ok, 99 MB\n"),
                         self.call('"image inspect "*Size*) echo 99999999999', megabytes=99)[:2])
        self.assertEqual((1, f"images_test: {self.IMAGE}: 100000000 bytes, expected less than 100 MB\n"),
                         self.call('"image inspect "*Size*) echo 1', megabytes=100)[:2])

    def test_a_tag_may_say_more_than_the_version(self):
        image = "registry.example:5000/lockstep-trainer:1a2b3c4"
        self.assertEqual((0, f"images_test: {image}: ok, 1 MB\n", []), self.call(image=image))

    def test_the_version_is_that_of_the_label(self):
        for label in ("0.2.0", ""):
            code, said, _ = self.call(f'"image inspect "*image.version*) echo {label}')
            self.assertEqual((1, f"images_test: {self.IMAGE}: --version printed '0.1.0', expected its label version, '{label}', in it\n"),
                             (code, said))

    def test_a_check_that_fails_leaves_nothing(self):
        for fault, expected in (('"image inspect "*Id*) echo sha256:1', "was taken from the engine's cache"),
                                ('"image inspect "*Layers*) echo "$5"', "made again, it has other layers"),
                                ("export*) exit 1", "not look like a tar archive")):
            with self.subTest(fault):
                code, said, left = self.call(fault)
                self.assertNotEqual(0, code, said)
                self.assertIn(expected, said)
                self.assertNotIn("licence", said, "another check was made of what is not there")
                self.assertEqual([], left)


class InContainerTest(unittest.TestCase):
    """With a container engine that writes down what it is asked, one argument a line."""

    def setUp(self):
        self.folder = temporary_folder(self)
        self.built = self.folder / "built"  # the images, one a line
        self.built.touch()

    def engine(self, name, version):
        write_program(self.folder / name, f"""case "$1" in
  --version) echo "{version}" ;;
  image) grep -qx "$3" "{self.built}" ;;
  build) for last; do :; done; cat "$last/Dockerfile" >"{self.folder}/Dockerfile"
         "$last/tools/setup" --help >/dev/null && echo "$3" >>"{self.built}" ;;
  run) printf '%s\\n' "$@" >"{self.folder}/run" ;;
esac""")

    def call(self, *command, **environment):
        return subprocess.run(
            [str(TOOLS / "in-container"), *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, check=False,
            env={"PATH": f"{self.folder}:/usr/bin:/bin", "HOME": str(self.folder),
                 "LOCKSTEP_ENGINE": "engine", **environment})

    def arguments(self):
        return (self.folder / "run").read_text().splitlines()

    def test_the_command_runs_as_the_caller_in_the_tree(self):
        self.engine("engine", "Docker version 28.0")
        result = self.call("make", "run", "RUN_FLAGS=--timeout 60", BASE_IMAGE="debian:trixie")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("FROM debian:trixie\n", (self.folder / "Dockerfile").read_text())
        root, said = str(TOOLS.parent), self.arguments()
        self.assertEqual(["make", "run", "RUN_FLAGS=--timeout 60"], said[-3:])
        self.assertRegex(said[-4], r"^lockstep-build:[0-9a-f]{12}$")
        for option, value in (("--volume", f"{root}:{root}"), ("--workdir", root),
                              ("--user", f"{os.getuid()}:{os.getgid()}"),
                              ("--volume", f"{self.folder}/.cache/lockstep-container:/cache")):
            self.assertIn((option, value), list(zip(said, said[1:])))
        self.assertNotIn("--tty", said, "there is no terminal")

    def test_an_image_is_built_once_for_each_base(self):
        self.engine("engine", "Docker version 28.0")
        for base in ("debian:bookworm-slim", "debian:bookworm-slim", "debian:trixie-slim"):
            self.assertEqual(0, self.call("true", BASE_IMAGE=base).returncode)
        built = self.built.read_text().splitlines()
        self.assertEqual(2, len(built))
        self.assertEqual(2, len(set(built)))

    def test_settings_of_registries_and_proxies_are_passed_by_name(self):
        self.engine("engine", "Docker version 28.0")
        self.call("true", PIP_INDEX_URL="https://user:hunter-2@pypi.example", https_proxy="http://p:1")
        said = self.arguments()
        for name in ("PIP_INDEX_URL", "https_proxy"):
            self.assertIn(("--env", name), list(zip(said, said[1:])))
        self.assertNotIn("hunter-2", " ".join(said))

    def test_certificates_of_a_proxy_are_mounted_and_named(self):
        self.engine("engine", "Docker version 28.0")
        certificates = self.folder / "proxy.pem"
        self.assertIn("found no file", self.call("true", PIP_CERT=str(certificates)).stderr)
        certificates.touch()
        self.call("true", PIP_CERT=str(certificates))
        said = self.arguments()
        self.assertIn(("--volume", f"{certificates}:/certificates.pem:ro"), list(zip(said, said[1:])))
        self.assertIn(("--env", "PIP_CERT=/certificates.pem"), list(zip(said, said[1:])))

    def test_without_an_engine_it_says_what_to_install(self):
        result = self.call("make", "run")
        self.assertEqual(1, result.returncode)
        self.assertIn("found no engine on the PATH: install Docker or Podman", result.stderr)


class CiRunTest(unittest.TestCase):
    """.ci/run with a make and a tools/kube that do nothing but end with a code."""

    BROKEN = "#!/usr/bin/env bash\nset -eu\nif then\n"

    def call(self, engine="", node_image="", make="", **environment):
        """(exit code, the last line)"""
        folder = temporary_folder(self)
        (folder / ".ci").mkdir()
        shutil.copy(TOOLS.parent / ".ci/run", folder / ".ci/run")
        for name, script in (("tools/kube/docker-engine.sh", engine), ("tools/kube/node-image.sh", node_image),
                             ("path/make", f'echo "make $*"\ncase "$*" in {make}\nesac')):
            write_program(folder / name, script)
        done = subprocess.run([folder / ".ci/run"], stdout=subprocess.PIPE, text=True, check=False,
                              env={"PATH": f"{folder}/path:/usr/bin:/bin", **environment})
        return done.returncode, done.stdout.splitlines()[-1]

    def test_the_last_line_says_what_ran(self):
        self.assertEqual((0, "ci: lint and tests passed; smoke,lifecycle,failure on kind passed"), self.call())

    def test_a_machine_without_an_engine_or_time_is_excused(self):
        for programs, reason in (({"engine": "exit 3"}, "no Docker engine could be started"),
                                 ({"node_image": "exit 124"}, "no node image could be made in time")):
            code, said = self.call(**programs)
            self.assertEqual(0, code, said)
            self.assertIn(f"on kind not run: {reason}", said)
        code, said = self.call(node_image="exit 124", KIND_NODE_IMAGE="node:test")
        self.assertIn("on kind passed", said)

    def test_what_makes_the_cluster_is_not_excused_when_it_is_broken(self):
        for programs in ({"engine": "exit 1"}, {"engine": self.BROKEN}, {"node_image": "exit 1"},
                         {"node_image": self.BROKEN}, {"node_image": "exit 3"}):
            with self.subTest(programs):
                code, said = self.call(**programs)
                self.assertNotEqual(0, code, said)
                self.assertIn("on kind could not begin: ", said)

    def test_failing_lint_tests_and_scenarios_fail(self):
        for target, code in (("lint", 7), ("test", 1), ("e2e*", 7)):
            with self.subTest(target):
                self.assertEqual(code, self.call(make=f"*{target}) echo {target}; exit 7 ;;")[0])

    def test_skipped_tests_are_named(self):
        ctest = "\n".join(("100% tests passed", "The following tests did not run:", "\t 12 - cuda_kernels (Skipped)",
                           "\t 40 - python.types (Skipped)", ""))
        code, said = self.call(make=f"*test) printf '%s\\n' '{ctest}' ;;")
        self.assertEqual(0, code)
        self.assertIn("passed (skipped: cuda_kernels python.types); ", said)


class PolicydImageTest(unittest.TestCase):
    """tools/kube/policyd-image.sh with an engine that writes down what it is asked."""

    def setUp(self):
        self.folder = temporary_folder(self)
        shutil.copytree(TOOLS / "kube", self.folder / "kube")
        write_program(self.folder / "kube/docker-engine.sh", "")
        write_program(self.folder / "go", "")

    def call(self, has_image=True, run=0):
        """What it ended with, the tag that it printed, and what the engine was asked. `run` is what a container ends
        with."""
        write_program(self.folder / "docker", f"""echo "$1" >>{self.folder}/asked
case "$1" in image) exit {int(not has_image)} ;; run) echo "ipset: no such thing" >&2; exit {run} ;; esac""")
        (self.folder / "asked").write_text("")
        done = subprocess.run(
            [self.folder / "kube/policyd-image.sh"], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={"PATH": f"{self.folder}:/usr/bin:/bin", "HOME": str(self.folder), "TMPDIR": str(self.folder)})
        self.said = done.stderr
        self.assertEqual([], list(self.folder.glob("tmp.*")))
        return done.returncode, done.stdout.splitlines()[-1:], (self.folder / "asked").read_text().split()

    def test_it_is_built_where_there_is_none(self):
        code, (tag,), asked = self.call(has_image=False)
        self.assertRegex(tag, "^lockstep-policyd:[0-9a-f]{8}$")
        self.assertEqual((0, ["image", "build", "run"]), (code, asked))
        self.assertEqual((0, [tag], ["image", "run"]), self.call())

    def test_other_sources_are_another_image(self):
        tags = [self.call()[1]]
        for path in ("policyd/main.go", "policyd/go.mod", "policyd/go.sum", "policyd-image.sh"):
            with (self.folder / "kube" / path).open("a") as file:
                file.write("\n")
            self.assertNotIn(self.call()[1], tags)
            tags.append(self.call()[1])

    def test_a_kernel_that_cannot_is_another_end_than_an_engine_that_cannot(self):
        self.assertEqual((3, []), self.call(run=1)[:2])
        self.assertEqual("ipset: no such thing\n"
                         "policyd-image: this machine's kernel lacks what the message above names\n", self.said)
        self.assertEqual((125, []), self.call(run=125)[:2])


class BaseImageTest(unittest.TestCase):
    """tools/kube/base-image.sh with a debootstrap and an engine that write down what they are asked."""

    SOURCES = {"./etc/apt/sources.list", "./etc/apt/sources.list.d/debian.sources"}

    def call(self, verb, release, code=0, **environment):
        """(what it printed, what was asked, the files of the image with their modes)"""
        folder = temporary_folder(self)
        said, image = folder / "said", folder / "image.tar"
        said.touch()
        write_program(folder / "debootstrap", f"""echo "debootstrap $*" >>{said}
mkdir -p "$3/etc/dpkg/dpkg.cfg.d" "$3/usr/share/doc/bash" """)
        write_program(folder / "chroot", f"""echo "chroot $*" >>{said}; exit ${{CHROOT_CODE:-0}}""")
        write_program(folder / "docker", f"""echo "docker $*" >>{said}; cat >{image}""")
        done = subprocess.run([TOOLS / "kube/base-image.sh", verb], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False, env={"PATH": f"{folder}:/usr/bin:/bin", "TMPDIR": str(folder),
                                                "OS_RELEASE": os_release(folder, release), **environment})
        self.assertEqual(code, done.returncode, done.stderr)
        self.assertEqual([], list(folder.glob("tmp.*")))
        if not image.exists():
            return done.stdout + done.stderr, said.read_text(), {}
        with tarfile.open(image) as tar:
            return done.stdout + done.stderr, said.read_text(), {file.name: file.mode for file in tar}

    def test_it_is_of_this_machines_release(self):
        for release, name in (("bookworm", "bookworm"), ("trixie", "trixie"), ("noble", "bookworm"), (None, "bookworm")):
            with self.subTest(release):
                self.assertEqual(f"debian:{name}-slim\n", self.call("name", release)[0])
                _, said, files = self.call("make", release)
                self.assertRegex(said, rf"debootstrap --variant=minbase {name} /")
                self.assertRegex(said, rf"docker import .* debian:{name}-slim\n")
                self.assertIn("./etc/dpkg/dpkg.cfg.d/slim", files)
                self.assertNotIn("./usr/share/doc/bash", files)
                self.assertEqual(0o755, files["."], "programs may run as any user")

    def test_another_release_is_made_if_that_is_asked_for(self):
        self.assertEqual("debian:bookworm-slim\n", self.call("name", "trixie", BASE_SUITE="bookworm")[0])
        _, said, names = self.call("make", "trixie", BASE_SUITE="bookworm")
        self.assertRegex(said, "debootstrap --variant=minbase bookworm /")
        self.assertRegex(said, "docker import .* debian:bookworm-slim\n")
        self.assertEqual(set(), self.SOURCES & set(names))

    def test_a_release_that_cannot_be_made_is_refused_by_name(self):
        done = subprocess.run([TOOLS / "kube/base-image.sh", "name"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False, env={"PATH": "/usr/bin:/bin", "BASE_SUITE": "sid"})
        self.assertEqual((2, ""), (done.returncode, done.stdout))
        self.assertIn("found BASE_SUITE=sid, expected bookworm or trixie", done.stderr)

    def test_another_releases_packages_are_not_mixed_in(self):
        _, said, names = self.call("make", "noble")
        self.assertEqual(set(), self.SOURCES & set(names))
        self.assertNotIn("chroot", said)
        there = {name for name in self.SOURCES if pathlib.Path(name[1:]).is_file()}
        self.assertEqual(there, self.SOURCES & set(self.call("make", "trixie")[2]))

    CERTIFICATES = "./etc/ssl/certs/ca-certificates.crt"

    @unittest.skipUnless(any(pathlib.Path(name[1:]).is_file() for name in SOURCES) and pathlib.Path(CERTIFICATES[1:]).is_file(),
                         "needs Debian's sources of packages and certificates")
    def test_packages_can_be_installed_from_sources_that_are_asked_by_https(self):
        """In images that are made of it, as a node's is."""
        self.assertIn(self.CERTIFICATES, self.call("make", "trixie")[2])
        self.assertNotIn(self.CERTIFICATES, self.call("make", "trixie", BASE_SUITE="bookworm")[2])

    def test_its_packages_come_from_the_mirror_that_is_named(self):
        for mirror, said in (("http://mirror.example/debian", " http://mirror.example/debian"), ("", "")):
            self.assertRegex(self.call("make", "noble", DEBIAN_MIRROR=mirror)[1],
                             rf"debootstrap --variant=minbase bookworm /\S+{said}\n")

    @unittest.skipUnless(any(pathlib.Path(name[1:]).is_file() for name in SOURCES), "needs Debian's sources of packages")
    def test_it_has_the_updates_that_this_machine_takes(self):
        """debootstrap installs the packages of the release's beginning, or of its latest point release."""
        apt = "chroot .* apt-get -o APT::Update::Error-Mode=any -o Acquire::Retries=3"
        self.assertRegex(self.call("make", "trixie")[1], f"{apt} update\n{apt} upgrade --yes\ndocker import")
        warned, said, _ = self.call("make", "trixie", CHROOT_CODE="1")
        self.assertIn("warning: the packages of debian:trixie-slim, and of images that are made of it, lack updates",
                      warned)
        self.assertIn("docker import", said)


class RaiseLimitTest(unittest.TestCase):
    def test_a_limit_is_never_lowered(self):
        limit = temporary_folder(self) / "max_user_instances"
        for found, expected in (("128", "1024"), ("1024", "1024"), ("8192", "8192")):
            limit.write_text(found + "\n")
            subprocess.run([TOOLS / "kube/raise-limit.sh", limit, "1024"], check=True)
            self.assertEqual(expected + "\n", limit.read_text())


class DockerEngineTest(unittest.TestCase):
    """tools/kube/docker-engine.sh with an engine that runs and has no image, for a user who is not root."""

    def call(self, pulls, release="bookworm", **environment):
        folder = temporary_folder(self)
        said = folder / "said"
        write_program(folder / "docker", f"""echo "$*" >>{said}
case "$1 $2" in "image inspect") exit 1 ;; "pull "*) exit {0 if pulls else 1} ;; esac""")
        write_program(folder / "id", "echo 1000")
        write_program(folder / "debootstrap", f"echo debootstrap >>{said}")
        result = subprocess.run(
            [TOOLS / "kube" / "docker-engine.sh"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, check=False,
            env={"PATH": f"{folder}:/usr/bin:/bin", "OS_RELEASE": os_release(folder, release), **environment})
        return result, said.read_text()

    def test_another_image_than_the_default_one_is_pulled(self):
        result, said = self.call(pulls=True, BASE_IMAGE="debian:trixie-slim")
        self.assertEqual((0, "docker-engine: ready\n"), (result.returncode, result.stdout), result.stderr)
        self.assertIn("pull -q debian:trixie-slim\n", said)
        self.assertNotRegex(said, "import|debootstrap")

    def test_no_other_image_than_the_default_one_is_made_here(self):
        result, said = self.call(pulls=False, BASE_IMAGE="debian:trixie-slim")
        self.assertEqual(1, result.returncode)
        self.assertIn("found no image debian:trixie-slim and could not pull it", result.stderr)
        self.assertNotRegex(said, "import|debootstrap")

    def test_the_default_one_is_made_without_a_registry(self):
        result, said = self.call(pulls=True)
        self.assertNotIn("pull", said)
        self.assertIn("must be root", result.stderr)  # to make it
        self.assertEqual(3, result.returncode, ".ci/run's excuse")

    def test_the_default_one_is_of_this_machines_release(self):
        result, said = self.call(pulls=False, release="trixie", BASE_IMAGE="debian:trixie-slim")
        self.assertNotIn("pull", said)
        self.assertEqual(3, result.returncode, result.stderr)

    def asked_by_root(self, docker_io):
        """What raise-limit.sh and apt-get are asked, in words, where nothing is installed and the package docker.io has
        these programs. Ends before an engine is started: apt-get has no other program, and the PATH has no mount."""
        folder = temporary_folder(self)
        said, path = folder / "said", folder / "path"
        shutil.copytree(TOOLS / "kube", folder / "kube")
        write_program(folder / "kube/raise-limit.sh", f'echo "limit $*" >>{said}')
        write_program(path / "apt-get", f"""echo "apt-get $*" >>{said}
case "$*" in *docker.io*) cd {path} && for name in {" ".join(docker_io)}; do ln -s false $name; done ;; *docker-cli*) exit 1 ;; esac""")
        write_program(path / "id", "echo 0")
        write_program(path / "sed", "echo ffffffffffffffff")  # the capabilities: all of them
        for name in ("bash", "dirname", "false", "ln"):
            (path / name).symlink_to(shutil.which(name))
        done = subprocess.run([folder / "kube/docker-engine.sh"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, env={"PATH": str(path)})
        self.assertEqual(3, done.returncode, done.stderr)
        return [line.split() for line in said.read_text().splitlines()]

    def test_a_client_is_installed_where_the_engines_package_has_none(self):
        for docker_io, expected in ((("dockerd",), True), (("dockerd", "docker"), False)):
            with self.subTest(docker_io):
                asked = self.asked_by_root(docker_io)
                self.assertTrue(any("docker.io" in words for words in asked), asked)
                self.assertEqual(expected, any("docker-cli" in words for words in asked), asked)

    def test_the_limits_that_are_raised_are_the_kernels(self):
        limits = [pathlib.Path(words[1]) for words in self.asked_by_root(("dockerd",)) if words[0] == "limit"]
        self.assertEqual(["max_user_instances", "max_user_watches"], [path.name for path in limits])
        for path in limits:
            self.assertTrue(path.is_file(), path)


class KubeVersionsTest(unittest.TestCase):
    """Where the programs of a kind cluster land, and the tag of its node image."""

    def setUp(self):
        self.folder = temporary_folder(self)
        shutil.copytree(TOOLS / "kube", self.folder / "kube")

    def names(self, **environment):
        script = '"$0/control-plane.sh" where; . "$0/environment.sh"; node_image "$0"'
        return subprocess.run(["bash", "-euc", script, self.folder / "kube"], check=True, text=True,
                              stdout=subprocess.PIPE, env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder),
                                                           **environment}).stdout.splitlines()

    def test_another_version_is_another_folder_and_another_image(self):
        programs, image = self.names()
        self.assertEqual([programs, image], self.names())
        for name in ("K8S", "ETCD", "COREDNS", "CONTAINERD", "KIND", "PROVISIONER"):
            with self.subTest(name):
                others = self.names(**{f"{name}_VERSION": "1.2.3"})
                self.assertNotIn(programs, others)
                self.assertNotIn(image, others)

    def test_other_sources_are_another_image(self):
        programs, image = self.names()
        for path in ("kindnetd/main.go", "kindnetd/go.sum", "node-image.sh"):
            with (self.folder / "kube" / path).open("a") as file:
                file.write("\n")
            self.assertEqual(programs, self.names()[0])
            self.assertNotEqual(image, self.names()[1])
            image = self.names()[1]
        self.assertNotEqual(image, self.names(BASE_IMAGE="debian:trixie-slim")[1])

    def test_a_node_is_of_debian_12_whatever_this_machine_is(self):
        """Unless another image is named. The engine's script is asked for the same base."""
        write_program(self.folder / "docker", "")
        write_program(self.folder / "kube/docker-engine.sh", '"${0%/*}/base-image.sh" name')
        images = set()
        for release in ("bookworm", "trixie"):
            env = {"OS_RELEASE": os_release(self.folder, release)}
            images.add(self.names(**env)[1])
            said = subprocess.run([self.folder / "kube/node-image.sh"], check=True, text=True, stdout=subprocess.PIPE,
                                  env={"PATH": f"{self.folder}:/usr/bin:/bin", "HOME": str(self.folder), **env}).stdout
            self.assertEqual(["debian:bookworm-slim", f"node-image: have {self.names(**env)[1]}"], said.splitlines())
        self.assertEqual(1, len(images), images)

    def test_each_script_means_the_same_image(self):
        """With an engine that has it already."""
        for program in ("docker", "kind", "kubectl", "iptables", "kube/docker-engine.sh"):
            write_program(self.folder / program, "[ ! -p /dev/stdin ] || cat >/dev/null")
        said = [subprocess.run([self.folder / "kube" / command[0], *command[1:]], check=True, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               env={"PATH": f"{self.folder}:/usr/bin:/bin", "HOME": str(self.folder)}).stdout
                for command in (["node-image.sh"], ["cluster.sh", "create", "probe"])]
        for one in said:
            self.assertIn(f"have {self.names()[1]}\n", one)


class ClusterTest(unittest.TestCase):
    """tools/kube/cluster.sh with programs that write down what they are asked."""

    def setUp(self):
        self.folder = temporary_folder(self)
        self.said = self.folder / "said"
        self.said.touch()
        for script in ("cluster.sh", "environment.sh"):
            shutil.copy(TOOLS / "kube" / script, self.folder)
        self.program("docker-engine.sh", "")
        self.program("docker", "")
        self.program("iptables", "")

    def program(self, name, script):
        write_program(self.folder / name, f'echo "{name} $*" >>"{self.said}"\n{script}')

    def call(self, verb="create"):
        return subprocess.run(
            [str(self.folder / "cluster.sh"), verb, "probe"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
            env={"PATH": f"{self.folder}:/usr/bin:/bin", "HOME": str(self.folder),
                 "KIND_NODE_IMAGE": "node:test", "CLUSTER_TRIES": "1"})

    def test_a_cluster_that_is_there_is_made_known_to_this_caller(self):
        self.program("kind", 'if [ "$1" = get ]; then echo probe; fi')
        self.program("kubectl", "")
        result = self.call()
        self.assertEqual(0, result.returncode, result.stderr)
        said = self.said.read_text()
        self.assertIn("kind export kubeconfig --name probe\n", said)
        self.assertIn("kubectl --context kind-probe get --raw /readyz\n", said)
        self.assertNotIn("create cluster", said)

    def test_a_cluster_that_does_not_answer_is_no_cluster(self):
        self.program("kind", 'if [ "$1" = get ]; then echo probe; fi')
        self.program("kubectl", "exit 1")
        result = self.call()
        self.assertEqual(1, result.returncode)
        self.assertIn("cluster probe exists and does not answer", result.stderr)

    def test_a_cluster_that_is_not_there_is_created(self):
        self.program("kind", 'if [ "$1" = create ]; then cat >/dev/null; fi')
        self.program("kubectl", "")
        self.assertEqual(0, self.call().returncode)
        self.assertIn("kind create cluster --name probe --image node:test", self.said.read_text())

    def test_the_nodes_of_one_that_could_not_be_created_stay(self):
        """Else kind deletes them, and with them what tells why."""
        self.program("kind", 'if [ "$1" = create ]; then cat >/dev/null; exit 1; fi')
        self.program("kubectl", "")
        result = self.call()
        self.assertEqual(1, result.returncode)
        self.assertRegex(self.said.read_text(), "kind create cluster .* --retain\n")
        self.assertRegex(result.stderr, "cluster.sh down probe deletes them\n")

    RULE = "DOCKER-USER -i br-lockstep ! -o br-lockstep -j REJECT"

    def engine(self, nodes=""):
        """A firewall and an engine that remember the rule and the network; with these nodes in it."""
        rule, network = self.folder / "rule", self.folder / "network"
        self.program("iptables", f"""case $1 in
  -C) [ -e {rule} ] ;;
  -I) touch {rule} ;;
  -D) rm {rule} ;;
esac""")
        self.program("docker", f"""case "$1 $2" in
  "network inspect") [ -e {network} ] ;;
  "network create") touch {network} ;;
  "network rm") rm {network} ;;
  "ps "*) echo "{nodes}" ;;
esac""")
        self.program("kind", f"""[ "$1" != create ] || cat >/dev/null
echo "in $KIND_EXPERIMENTAL_DOCKER_NETWORK" >>{self.said}""")
        self.program("kubectl", "")

    def left(self):
        return {"rule", "network"} & {path.name for path in self.folder.iterdir()}

    def test_a_cluster_fits_if_its_nodes_are_of_the_image_and_as_many(self):
        self.program("kind", "")
        self.program("kubectl", "")
        for nodes, image, fits in (("0a 0b 0c", "sha256:1", True), ("0a 0b", "sha256:1", False), ("", "sha256:1", False),
                                   ("0a 0b 0c", "sha256:2", False)):
            with self.subTest(nodes=nodes, image=image):
                self.program("docker", f"""case "$1" in
  image) echo {image} ;;
  ps) printf '%s\\n' {nodes} ;;
  inspect) echo sha256:1 ;;
esac""")
                self.assertEqual(0 if fits else 1, self.call("fits").returncode)
        self.program("docker", "exit 1")
        self.assertEqual(1, self.call("fits").returncode, "there is no such image")

    def test_the_network_without_a_way_out_is_that_of_these_clusters_and_goes_with_the_last(self):
        self.engine()
        self.assertEqual(0, self.call().returncode)
        said = self.said.read_text()
        self.assertIn(f"iptables -I {self.RULE}\n", said)
        self.assertRegex(said, "docker network create .*bridge.name=br-lockstep lockstep-kind\n")
        self.assertIn("in lockstep-kind\n", said)
        self.assertNotRegex(said, "network [a-z]+ kind\n")
        result = self.call("down")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("docker network rm lockstep-kind\n", self.said.read_text())
        self.assertEqual(set(), self.left())
        self.assertEqual(0, self.call("down").returncode, "there is nothing to remove")

    def test_the_network_stays_while_another_cluster_is_in_it(self):
        self.engine(nodes="0123456789ab")
        self.call()
        self.assertEqual(0, self.call("down").returncode)
        self.assertEqual({"rule", "network"}, self.left())

    def test_the_network_stays_if_the_cluster_could_not_be_deleted(self):
        self.engine()
        self.call()
        self.program("kind", "exit 1")
        self.assertEqual(1, self.call("down").returncode)
        self.assertEqual({"rule", "network"}, self.left())


class ScenarioClusterTest(unittest.TestCase):
    """tests/e2e/cluster.py with programs that write down what they are asked."""

    def call(self, do, **answers):
        """What was called by `do(cluster)`: "PROGRAM ARGUMENT…". An answer is for the calls that begin with its name,
        of which _ are spaces; an exception is raised if the caller wants that."""
        cluster = e2e_cluster.Cluster.__new__(e2e_cluster.Cluster)
        cluster.env, cluster.steps, called = {}, e2e_run.Steps(), []

        def call(*command, check=True, **_):
            context = ("--context", f"kind-{e2e_cluster.NAME}")
            words = [str(word) for word in command[1:] if str(word) not in context]
            called.append(" ".join([pathlib.Path(command[0]).name, *words]))
            for begin, answer in answers.items():
                if called[-1].startswith(begin.replace("_", " ")):
                    if not isinstance(answer, Exception):
                        return answer
                    if check:
                        raise answer
            return ""

        with unittest.mock.patch.multiple(cluster, call=call, program=lambda name: name):
            do(cluster)
        return called

    NAME = e2e_cluster.NAME
    NODES = json.dumps({"items": [{"metadata": {"name": name, "labels": labels}} for name, labels in (
        ("control", {"node-role.kubernetes.io/control-plane": ""}), ("a", {}), ("b", {}))]})

    def start(self, contexts, **answers):
        """What was done to clusters and nodes."""
        called = self.call(e2e_cluster.Cluster.start, kubectl_config=contexts, kubectl_get_nodes=self.NODES, **answers)
        return [one for one in called if one.startswith(("cluster.sh", "docker unpause", "kubectl uncordon"))]

    def test_one_that_this_checkout_kept_is_taken_up(self):
        self.assertEqual([f"cluster.sh fits {self.NAME} 3", f"cluster.sh create {self.NAME} 3", "kubectl uncordon a b"],
                         self.start(f"kind-other\nkind-{self.NAME}"))

    def test_its_nodes_are_as_new_ones_would_be(self):
        self.assertEqual([f"cluster.sh fits {self.NAME} 3", "docker unpause 0a 0b", f"cluster.sh create {self.NAME} 3",
                          "kubectl uncordon a b"], self.start(f"kind-{self.NAME}", docker_ps="0a\n0b"))

    def test_one_of_other_nodes_is_deleted_first(self):
        differs = subprocess.CalledProcessError(1, "cluster.sh")
        self.assertEqual([f"cluster.sh fits {self.NAME} 3", f"cluster.sh down {self.NAME}", f"cluster.sh create {self.NAME} 3"],
                         self.start(f"kind-{self.NAME}", **{"cluster.sh_fits": differs}))

    def test_one_that_another_checkout_left_is_deleted_first(self):
        self.assertEqual([f"cluster.sh down {self.NAME}", f"cluster.sh create {self.NAME} 3"], self.start("kind-other"))

    def test_its_nodes_are_the_same_whatever_images_are_made_of(self):
        folder, tags = temporary_folder(self), set()
        for base in ("debian:bookworm-slim", "debian:trixie-slim"):
            with unittest.mock.patch.multiple(e2e_cluster, OUT=folder, SHARED=folder / "shared", BASE_IMAGE=base):
                env = e2e_cluster.Cluster(e2e_run.Steps()).env
            tags.add(subprocess.run(["bash", "-euc", '. "$0/environment.sh"; node_image "$0"', TOOLS / "kube"], check=True,
                                    text=True, stdout=subprocess.PIPE, env=env).stdout)
        self.assertEqual(1, len(tags), tags)

    def test_each_thing_is_removed_whatever_becomes_of_the_others(self):
        stays = subprocess.CalledProcessError(1, "kubectl")

        def remove(cluster):
            with self.assertRaises(subprocess.CalledProcessError):
                cluster.remove(("namespace", "n"), ("pv", "v"), ("-f", "x"))

        called = self.call(remove, kubectl_delete_namespace=stays)
        self.assertEqual(["kubectl delete namespace n --ignore-not-found --timeout=80s",
                          "kubectl delete pv v --ignore-not-found --timeout=80s",
                          "kubectl delete -f x --ignore-not-found --timeout=80s"], called)

    def test_a_cluster_that_cannot_be_deleted_is_a_failure(self):
        with self.assertRaises(subprocess.CalledProcessError):
            self.call(e2e_cluster.Cluster.stop, **{"cluster.sh_down": subprocess.CalledProcessError(1, "cluster.sh")})

    def test_images_of_another_checkout_are_not_taken_for_our_own(self):
        root = temporary_folder(self)
        ours = '["sha256:1"]'
        for name in ("operator", "trainer"):
            made = root / "build/images" / name / f"layers-{e2e_cluster.ARCH}"
            made.parent.mkdir(parents=True)
            made.write_text(ours + "\n")
        with unittest.mock.patch.object(e2e_cluster, "ROOT", root):
            called = self.call(e2e_cluster.Cluster.load_own_images, docker_image=ours)
            self.assertIn("kind load docker-image", called[0])
            for found in ('["sha256:2"]', ""):
                with self.assertRaisesRegex(Failure, "expected lockstep-operator:.* with the layers"):
                    self.call(e2e_cluster.Cluster.load_own_images, docker_image=found)
            (root / "build/images/trainer" / made.name).unlink()
            with self.assertRaisesRegex(Failure, "expected lockstep-trainer:.* that was made here"):
                self.call(e2e_cluster.Cluster.load_own_images, docker_image=ours)

    def test_what_tells_why_begins_with_the_logs_of_the_nodes(self):
        """And ends without those of pods where the API server does not answer."""
        folder = temporary_folder(self) / "smoke"
        silent = subprocess.CalledProcessError(1, "kubectl", stderr="connection refused")

        def collect(cluster):
            with self.assertRaisesRegex(Failure, "connection refused"):
                cluster.collect(folder)

        with unittest.mock.patch.object(e2e_cluster, "ROOT", folder.parent), contextlib.redirect_stdout(io.StringIO()):
            called = self.call(collect, kubectl=silent)
        self.assertEqual(f"timeout 60 kind export logs --name {self.NAME} {folder}/nodes", called[0])
        self.assertIn("kubectl --request-timeout=20s get nodes -o wide", called)

    def test_an_operator_of_another_image_is_started_again(self):
        def deployment(**annotations):
            return json.dumps({"metadata": {"annotations": annotations}})

        for before, restarted in (("", False), (deployment(), True),
                                  (deployment(**{e2e_cluster.OF_IMAGE: "sha256:old"}), True),
                                  (deployment(**{e2e_cluster.OF_IMAGE: "sha256:new"}), False)):
            with self.subTest(before):
                called = self.call(e2e_cluster.Cluster.install, docker_image="sha256:new",
                                   kubectl_get_deployment=before)
                self.assertEqual(restarted, any("rollout restart" in one for one in called), called)
                self.assertIn(f"{e2e_cluster.OF_IMAGE}=sha256:new", " ".join(called))


class ScenarioRunTest(unittest.TestCase):
    """tests/e2e/run with a cluster and scenarios that do nothing."""

    def call(self, kept=False, fails=None, lock=None, **scenarios):
        """(its exit code, what it printed, what was asked of the cluster); a scenario is what its `run` does. With
        `fails`, that is asked in vain."""
        asked, out = unittest.mock.Mock(kept=kept, locks=[]), io.StringIO()
        if fails:
            getattr(asked, fails).side_effect = Failure("still there")
        folder = temporary_folder(self)
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.SIG_IGN))

        def module(path):
            name = path.rpartition(".")[2]
            return unittest.mock.Mock(run=scenarios[name], clean_up=getattr(asked, f"clean_up_{name}"))

        def cluster(steps):
            asked.steps = steps
            if lock:
                asked.lock = lambda: lock(asked)
            return asked

        with unittest.mock.patch.multiple(e2e_run, Cluster=cluster, OUT=folder), \
                unittest.mock.patch.object(e2e_run.importlib, "import_module", module), \
                unittest.mock.patch.object(sys, "argv", ["run", *scenarios]), \
                unittest.mock.patch.dict(os.environ, {"E2E_KEEP": ""}), contextlib.redirect_stdout(out):
            try:
                code = e2e_run.main()
            finally:
                for file in asked.locks:  # as at the process's end
                    file.close()
        self.failures = {path.parent.name: path.read_text() for path in folder.glob("*/failure.txt")}
        return code, out.getvalue(), [name for name, *_ in asked.method_calls]

    def test_an_interrupted_run_says_what_it_found_and_deletes_the_cluster(self):
        def hangs(cluster):
            with cluster.steps.step("waiting for a pod", 60):
                signal.raise_signal(signal.SIGINT)

        code, said, asked = self.call(smoke=lambda _: None, lifecycle=hangs, failure=lambda _: None)
        self.assertEqual(130, code)
        self.assertIn("lifecycle: FAILED: waiting for a pod: interrupted", said)
        self.assertIn("e2e: 1 passed, 1 failed, 0 skipped", said)
        self.assertEqual(["lock", "start", "load_own_images", "clean_up_smoke", "collect", "clean_up_lifecycle", "stop"], asked)
        self.assertIn("KeyboardInterrupt", self.failures["lifecycle"])

    def test_a_scenario_that_fails_does_not_stop_the_next(self):
        code, said, asked = self.call(smoke=lambda _: {}["missing"], lifecycle=lambda _: None)
        self.assertEqual(1, code)
        self.assertIn("e2e: 1 passed, 1 failed, 0 skipped", said)
        self.assertEqual("stop", asked[-1])

    def test_what_a_killed_run_has_left_on_a_kept_cluster_is_cleaned_up_first(self):
        code, _, asked = self.call(kept=True, smoke=lambda cluster: cluster.ran())
        self.assertEqual((0, ["lock", "start", "load_own_images", "clean_up_smoke", "ran", "clean_up_smoke", "stop"]), (code, asked))

    def test_a_scenario_that_leaves_something_behind_fails(self):
        code, said, asked = self.call(fails="clean_up_smoke", smoke=lambda _: None, lifecycle=lambda _: None)
        self.assertEqual(1, code)
        self.assertIn("smoke: NOT CLEANED UP: cleaning up: still there", said)
        self.assertIn("e2e: 1 passed, 1 failed, 0 skipped", said)
        self.assertEqual(["lock", "start", "load_own_images", "clean_up_smoke", "collect", "clean_up_lifecycle", "stop"], asked)
        self.assertIn("still there", self.failures["smoke"])

    def test_what_tells_why_a_scenario_failed_is_not_replaced(self):
        _, _, asked = self.call(fails="clean_up_smoke", smoke=lambda _: {}["missing"])
        self.assertEqual(1, asked.count("collect"))
        self.assertIn("missing", self.failures["smoke"])

    def test_a_cluster_that_cannot_be_deleted_is_named(self):
        code, said, _ = self.call(fails="stop", smoke=lambda _: None)
        self.assertEqual(0, code)
        self.assertIn(f"not deleted, tools/kube/cluster.sh down {e2e_cluster.NAME}: the cluster is deleted: still there",
                      said)

    def test_the_cluster_of_another_run_is_left_alone(self):
        folder = temporary_folder(self)
        with unittest.mock.patch.object(e2e_cluster, "LOCKS", (folder / "checkout", folder / "cluster")):
            for taken in ("checkout", "cluster"):
                with (folder / taken).open("a") as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    with self.assertRaisesRegex(SystemExit, f"found .*/{taken} locked by another run"):
                        self.call(lock=e2e_cluster.Cluster.lock, smoke=lambda _: None)
            code, _, asked = self.call(lock=e2e_cluster.Cluster.lock, smoke=lambda _: None)
        self.assertEqual((0, ["start", "load_own_images", "clean_up_smoke", "stop"]), (code, asked))

    def test_an_interrupt_before_the_scenarios_is_reported_too(self):
        def interrupted(*_):
            signal.raise_signal(signal.SIGINT)

        with unittest.mock.patch.object(e2e_run, "prepare", interrupted):
            code, said, asked = self.call(smoke=lambda _: None)
        self.assertEqual((130, ["lock", "collect", "stop"]), (code, asked))
        self.assertIn("e2e: 0 passed, 1 failed, 0 skipped", said)

    def test_a_cluster_that_cannot_be_prepared_says_why_before_it_is_deleted(self):
        code, said, asked = self.call(fails="load_own_images", smoke=lambda _: None)
        self.assertEqual((1, ["lock", "start", "load_own_images", "collect", "stop"]), (code, asked))
        self.assertIn("still there", self.failures["cluster"])
        self.assertRegex(said, "cluster +failed: see build/e2e/cluster\n")
        self.assertIn("e2e: 0 passed, 1 failed, 0 skipped", said)


def log(*records):
    """Records of a trainer: (message, its fields)."""
    return [{"message": message, **fields} for message, fields in records]


class StrategiesScenarioTest(unittest.TestCase):
    def test_what_another_strategy_says_is_refused(self):
        def group(name):
            _, _, ranks, said = strategies.RUN[name]
            said = {"world": ranks, **said}
            return [{"rank": rank, **said, **({"stage": rank % 2} if "stages" in said else {})} for rank in range(ranks)]

        for name, (_, _, ranks, said) in strategies.RUN.items():
            strategies.check_group(group(name), ranks, said)
        for name, found in (("central", "mirrored"), ("mirrored", "central"), ("stages", "both"), ("both", "stages")):
            _, _, ranks, said = strategies.RUN[name]
            with self.subTest(f"{found} instead of {name}"), self.assertRaises(Failure):
                strategies.check_group(group(found), ranks, said)
        one_stage = [{**record, "stage": 0} for record in group("stages")]
        with self.assertRaises(Failure):
            strategies.check_group(one_stage, 4, strategies.RUN["stages"][3])


class ElasticScenarioTest(unittest.TestCase):
    @staticmethod
    def resize(*, stopped=(700,), restored=(700,), first=701):
        return log(*(("the generation has stopped", {"step": step}) for step in stopped),
                   *(("restored a checkpoint", {"step": step}) for step in restored),
                   ("the generation has started", {"world": 4}), ("first step of the generation", {"step": first}))

    def test_a_resize_goes_on_from_the_last_step_that_was_done(self):
        elastic.check_resize(self.resize())
        for wrong in ({"restored": (650,), "first": 651}, {"restored": ()}, {"first": 702}, {"stopped": ()},
                      {"stopped": (650, 700)}):
            with self.subTest(wrong), self.assertRaises(Failure):
                elastic.check_resize(self.resize(**wrong))

    def test_the_first_step_is_that_of_the_new_size(self):
        self.assertTrue(elastic.trains(self.resize(), 4))
        self.assertFalse(elastic.trains(self.resize(), 2))
        self.assertFalse(elastic.trains(self.resize()[:-1], 4))

    def test_each_sample_counts_once(self):
        def epoch(number, **fields):
            return {"epoch": number, "samples": elastic.EPOCH, "samplesLost": 0, "samplesDuplicated": 0, **fields}

        elastic.check_epochs([epoch(0), epoch(1)])
        for wrong in ([epoch(0), epoch(0)], [epoch(0), epoch(2)], [epoch(0, samplesLost=1)],
                      [epoch(0, samplesDuplicated=1)], [epoch(0, samples=4000)]):
            with self.subTest(wrong), self.assertRaises(Failure):
                elastic.check_epochs(wrong)


class LoggedJob(e2e_job.Job):
    """One whose pods log what the test says, which loses a pod when it is told to delete one."""

    def __init__(self, name):
        self.name, self.steps, self.logs, self.lost = name, Steps(), {}, {}
        self.charged = 0

    def records(self, pod):
        return self.logs.get(pod, [])

    def lives(self):
        return {name: (self.lost.get(name, 0), [0]) for name in ("hit-ps-1", "hit-worker-0", "hit-worker-1")}

    def restarts(self):
        return 0, self.charged

    def kubectl(self, verb, _kind, pod, *_, **__):
        assert verb == "delete"
        self.lost[pod] = 1
        self.charged += 1
        self.after(pod)


class ParameterServersScenarioTest(unittest.TestCase):
    """A job that loses a pod by step 960, of which step 900 was saved."""

    LOST = {"hit-worker-1": ("hit-worker-1", "first batch of the generation", 960),
            "hit-worker-0": ("hit-worker-0", "first step of the generation", 961),
            "hit-ps-1": ("hit-worker-0", "first step of the generation", 901)}

    def lose(self, pod, teller, message, step, goes_on=True):
        job = LoggedJob("hit")
        job.logs["hit-worker-0"] = log(("first step of the generation", {"step": 1}))
        logged, steps = job.records, iter(range(840, 960, 10))

        def records(who):  # until the loss, it goes on between two looks
            if not job.lost and who == "hit-worker-0":
                at = next(steps)
                job.logs[who] += log(("saved a checkpoint", {"step": at - 60}), ("epoch done", {"step": at}))
            return logged(who)

        job.records = records

        def after(lost):
            if lost == "hit-worker-0":
                job.logs[lost] = []
            if step is not None:
                job.logs.setdefault(teller, []).extend(log((message, {"step": step})))

        seen = job.said

        def said(who, what):  # an epoch ends between two looks
            if goes_on and what == "epoch done":
                job.logs["hit-worker-0"] += log(("epoch done", {"step": 992}))
            return seen(who, what)

        job.after, job.said = after, said
        with unittest.mock.patch.object(e2e_steps, "PATIENCE", 0.002), contextlib.redirect_stdout(io.StringIO()):
            parameter_servers.lose(job, pod, "a pod", 1)

    def test_training_goes_on_from_where_it_was(self):
        for pod, shows in self.LOST.items():
            with self.subTest(pod):
                self.lose(pod, *shows)

    def test_a_replacement_that_does_not_train_is_not_enough(self):
        for pod, (teller, message, _) in self.LOST.items():
            with self.subTest(pod), self.assertRaises(Failure):
                self.lose(pod, teller, message, None)

    def test_a_job_that_goes_too_far_back_or_stops_fails(self):
        for pod, (teller, message, step) in self.LOST.items():
            for wrong in ({"step": 1}, {"step": step, "goes_on": False}):
                with self.subTest(pod, **wrong), self.assertRaises(Failure):
                    self.lose(pod, teller, message, **wrong)


class FailureScenarioTest(unittest.TestCase):
    def next_generation(self, ended, last, first):
        job = LoggedJob("hit")
        job.logs["a"] = log(("first step of the generation", {"step": 1}))

        def happened():
            job.logs["a"] += log((ended, {"step": last}), ("first step of the generation", {
                "step": first, "time": "2026-01-31T12:00:00Z"}))

        with contextlib.redirect_stdout(io.StringIO()):
            failure.next_generation(job, "a", happened, "a pod")

    def test_no_step_is_lost_or_left_out(self):
        for ended in ("the generation has ended; joining the next one", "the generation has stopped"):
            self.next_generation(ended, 700, 701)
            for first in (700, 640, 702):
                with self.subTest(ended, first=first), self.assertRaises(Failure):
                    self.next_generation(ended, 700, first)


class UpgradeScenarioTest(unittest.TestCase):
    """A repository whose tools/build copies a file, if it is newer than what was built before."""

    BUILD = """cd "$(dirname "$0")/.." && mkdir -p build && echo "$3 $4 $5" >build/programs
[ -e build/program ] && [ ! operator.cc -nt build/program ] || cp operator.cc build/program"""

    def git(self, *arguments):
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments], cwd=self.repository,
                              check=True, text=True, stdout=subprocess.PIPE).stdout.strip()

    def commit(self, text, **files):
        for name, content in {"operator.cc": text, **files}.items():
            (self.repository / name).write_text(content)
        self.git("add", ".")
        self.git("commit", "-q", "-m", text)
        return self.git("rev-parse", "--short", "HEAD")

    def test_the_program_is_that_of_the_commit_whatever_was_built_before(self):
        folder = temporary_folder(self)
        self.repository = folder / "repository"
        write_program(self.repository / "tools/build", self.BUILD)
        write_program(self.repository / "tools/images", 'echo "$BASE_IMAGE [$IMAGE_PREFIX] $*" >"${0%/*}/../build/images"')
        self.git("init", "-q")
        older, newer = self.commit("older"), self.commit("newer", other="")

        def call(*command, **_):
            return subprocess.run([str(word) for word in command], cwd=self.repository, check=True, text=True,
                                  stdout=subprocess.PIPE).stdout.strip()

        sources = folder / "previous"
        for commit, program, files in ((newer, "newer", {"other"}), (older, "older", set())):
            with unittest.mock.patch.dict(os.environ, E2E_PREVIOUS=commit, IMAGE_PREFIX="registry.example/"), \
                    unittest.mock.patch.multiple(upgrade, SOURCES=sources, BASE_IMAGE="debian:test"):
                self.assertEqual(commit, upgrade.build_previous(unittest.mock.Mock(call=call)))
            self.assertEqual(program, (sources / "build/program").read_text())
            self.assertEqual("lockstep lockstep-operator lockstep-trainer\n", (sources / "build/programs").read_text())
            self.assertEqual("debian:test [] --tag previous operator trainer\n", (sources / "build/images").read_text())
            self.assertEqual({"build", "operator.cc", "tools"} | files, {path.name for path in sources.iterdir()})

    def test_the_previous_operator_starts_the_previous_trainers(self):
        for previous, image, flags in (
                (True, "lockstep-operator:previous", ["--leader-elect", "--trainer-image=lockstep-trainer:previous"]),
                (False, "lockstep-operator:0.1.0", ["--leader-elect"])):
            container = {"image": "lockstep-operator:0.1.0", "args": ["--leader-elect"]}
            cluster = unittest.mock.Mock(**{"objects_of.return_value": [
                {"kind": "CustomResourceDefinition"}, {"kind": "Deployment", "spec": {"template": {"spec": {
                    "containers": [container]}}}}]})
            upgrade.install_operator(cluster, previous)
            self.assertEqual({"image": image, "args": flags}, container)
            self.assertEqual(["Deployment"], [one["kind"] for one in cluster.apply.call_args.args])

    def replace(self, image="lockstep-trainer:previous", first=701, goes_on=True, charged=1):
        """An old job's pod is lost; its successor has this image and begins with this step."""
        job = LoggedJob("hit")
        job.logs["hit-worker-0"] = log(("first step of the generation", {"step": 1}))
        job.cluster = unittest.mock.Mock(**{"items.side_effect": lambda *_: [
            {"metadata": {"name": name}, "spec": {"containers": [{"image": image if name in job.lost else
                                                                  "lockstep-trainer:previous"}]}}
            for name in ("hit-worker-0", "hit-worker-1")]})
        job.selector = []

        def after(lost):
            self.assertEqual("hit-worker-1", lost)
            job.charged = charged
            job.logs["hit-worker-0"] += log(("the generation has ended; joining the next one", {"step": 700}), (
                "first step of the generation", {"step": first, "time": "2026-01-31T12:00:00Z"}))

        steps = itertools.count(600, 50)
        job.after, job.step = after, lambda: next(steps) if goes_on or not job.lost else 650
        with unittest.mock.patch.object(e2e_steps, "PATIENCE", 0.002), contextlib.redirect_stdout(io.StringIO()):
            upgrade.replace_an_old_trainer(job)

    def test_an_old_jobs_lost_pod_is_replaced_by_an_old_trainer_that_joins_the_others(self):
        self.replace()
        for wrong in ({"image": "lockstep-trainer:0.1.0"}, {"first": 1}, {"first": 700}, {"goes_on": False}, {"charged": 2}):
            with self.subTest(wrong), self.assertRaises(Failure):
                self.replace(**wrong)

    def test_a_version_whose_crd_was_never_installed_is_passed_over(self):
        self.repository = temporary_folder(self)
        self.git("init", "-q")
        crd = upgrade.CRD.relative_to(upgrade.ROOT)
        (self.repository / crd).parent.mkdir(parents=True)
        commits = [self.commit(text, **{str(crd): text}) for text in ("good", "broken", "better", "best")]
        self.commit("other")

        def call(*command, **_):
            return self.git(*command[1:])

        def kubectl(*_, stdin):
            said = {"broken": "x is invalid: rules[1]: Forbidden", "gone": "no connection"}
            raise subprocess.CalledProcessError(1, "kubectl", stderr=said.get(stdin, "AlreadyExists"))

        cluster = unittest.mock.Mock(call=call, kubectl=kubectl)
        with unittest.mock.patch.object(upgrade, "CRD", upgrade.ROOT / crd):
            self.assertEqual(commits[2], self.git("rev-parse", "--short", upgrade.previous_commit(cluster)))
            self.git("reset", "-q", "--hard", commits[2])
            self.assertEqual(commits[0], self.git("rev-parse", "--short", upgrade.previous_commit(cluster)))
            cluster.steps.say.assert_called_once()
            self.commit("gone", **{str(crd): "gone"})
            self.commit("new", **{str(crd): "new"})
            with self.assertRaises(subprocess.CalledProcessError):
                upgrade.previous_commit(cluster)


class HelmScenarioTest(unittest.TestCase):
    """Two operators, a and b, of which a leads as a_1111."""

    def setUp(self):
        self.sent = []

    def cluster(self, holders):
        """One whose Lease has these holders from one look to the next, the last one for good."""
        holders = itertools.chain(holders, itertools.repeat(holders[-1]))

        def call(*words):
            self.sent.append((words[words.index("--signal") + 1], words[-1]))

        return unittest.mock.Mock(steps=Steps(), call=call, leader=lambda: next(holders), **{
            "find.side_effect": lambda _, name, *__: {"spec": {"nodeName": "n"}, "status": {"containerStatuses": [
                {"containerID": f"containerd://{name}"}]}},
            "operator_pods.return_value": [{"metadata": {"name": name}} for name in "ab"]})

    def call(self, do):
        with unittest.mock.patch.multiple(helm, UNTOUCHED_SECONDS=0.05), contextlib.redirect_stdout(io.StringIO()), \
                unittest.mock.patch.object(e2e_steps, "PATIENCE", 0.002), \
                unittest.mock.patch.object(helm.quickstart, "helm"), \
                unittest.mock.patch.object(e2e_steps.time, "sleep"):
            do(unittest.mock.Mock(**{"lives.return_value": {"pod": 1}}))

    def lose_leader(self, *holders):
        self.sent.clear()
        self.call(lambda job: helm.lose_leader(self.cluster(holders), job, {"pod": 1}))

    def test_another_pod_must_lead_when_the_leading_one_hangs(self):
        self.lose_leader("a_1111", "", "b_3333")
        self.assertEqual([("SIGSTOP", "a"), ("SIGCONT", "a")], self.sent)
        with self.assertRaisesRegex(Failure, "expected a leading pod that is none of a"):
            self.lose_leader("a_1111", "", "a_2222")

    def test_the_one_that_goes_on_must_not_lead_again(self):
        with self.assertRaisesRegex(Failure, "expected that b leads"):
            self.lose_leader("a_1111", "b_3333", "a_1111")

    def test_no_pod_of_the_job_may_be_touched_meanwhile(self):
        with self.assertRaisesRegex(Failure, "the same pods"):
            self.call(lambda job: helm.lose_leader(self.cluster(["a_1111", "b_3333"]), job, {"pod": 0}))

    def test_a_pod_of_the_new_release_must_lead_after_a_change(self):
        self.call(lambda job: helm.change(self.cluster(["b_3333", "", "c_4444"]), job, {"pod": 1}, "helm upgrade", "upgrade"))
        with self.assertRaisesRegex(Failure, "expected a leading pod that is none of a, b"):
            self.call(lambda job: helm.change(self.cluster(["b_3333"]), job, {"pod": 1}, "helm upgrade", "upgrade"))


class FrameworksScenarioTest(unittest.TestCase):
    def test_the_operator_is_told_to_take_reports_where_programs_send_them(self):
        selector = {"app.kubernetes.io/component": "operator"}
        cluster = unittest.mock.Mock(**{"find.return_value": {"spec": {"selector": {"matchLabels": selector}}}})
        frameworks.take_reports(cluster)
        service, = cluster.apply.call_args.args
        self.assertEqual(selector, service["spec"]["selector"])
        port, = service["spec"]["ports"]
        flags = [one["value"] for one in json.loads(cluster.kubectl.call_args.args[-1])]
        self.assertEqual([f"--progress-bind-address=:{port['port']}",
                          "--progress-url=http://{name}.{namespace}.svc:{port}".format(**service["metadata"], **port)], flags)
        cluster.wait_for_operator.assert_called_once()

    def test_a_program_must_report_to_its_last_step(self):
        def check(progress):
            job = unittest.mock.Mock(steps=Steps(), **{"status.return_value": {"progress": progress} if progress else {}})
            frameworks.expect_reported(job)

        check({"step": 234, "totalSteps": 234, "loss": 0.1})
        for wrong in (None, {"step": 233, "totalSteps": 234, "loss": 0.1}, {"step": 234, "totalSteps": 234},
                      {"step": 0, "totalSteps": 0, "loss": 0.1}, {"loss": 0.1}):
            with self.subTest(wrong), self.assertRaises(Failure):
                check(wrong)


class NetworkPolicyScenarioTest(unittest.TestCase):
    def reaches(self, answer):
        def kubectl(*_, **__):
            if isinstance(answer, Exception):
                raise answer
            return answer

        return network_policy.reaches(unittest.mock.Mock(kubectl=kubectl), "n", "10.0.0.1", "8080")

    def test_only_the_pod_says_whether_a_port_is_open(self):
        self.assertTrue(self.reaches("open"))
        self.assertFalse(self.reaches("shut"))
        with self.assertRaises(subprocess.CalledProcessError):
            self.reaches(subprocess.CalledProcessError(1, "kubectl", stderr='pods "stranger" not found'))
        with self.assertRaises(Failure):
            self.reaches("")

    def test_each_stranger_must_reach_all_ports_or_none(self):
        job = unittest.mock.Mock(**{"pod.return_value": {"status": {"podIP": "10.0.0.1"}}})
        for answers, all_of_them in ((["open"] * 6, True), (["shut"] * 6, False)):
            said = unittest.mock.Mock(**{"kubectl.side_effect": [*answers, *answers]})
            network_policy.expect_reached(said, job, all_of_them)
            with self.assertRaises(Failure):
                network_policy.expect_reached(said, job, not all_of_them)

    def test_scrapers_must_reach_the_metrics_ports_alone(self):
        job = e2e_job.Job.__new__(e2e_job.Job)
        job.name, job.pod = "shut", lambda name: {"status": {"podIP": name}}

        def scrape(open_ports):
            """With a pod of the namespace `monitoring` that reaches these ports of the two workers."""
            def kubectl(_, namespace, *words):
                self.assertEqual("monitoring", namespace)
                return "open" if re.search(r"/dev/tcp/shut-worker-(\d/\d+)'", words[-1])[1] in open_ports else "shut"

            network_policy.expect_scraped(unittest.mock.Mock(kubectl=kubectl), job)

        scrape({"0/8080", "1/8080"})
        for wrong in (set(), {"0/8080"}, {"1/8080"}, {"0/8080", "1/8080", "0/2222"}):
            with self.subTest(wrong), self.assertRaises(Failure):
                scrape(wrong)

    def test_the_strangers_image_is_one_that_was_made_here(self):
        """kind cannot load one of several platforms, as those of a registry are."""
        base, calls = network_policy.BASE_IMAGE, unittest.mock.Mock()
        network_policy.load_stranger(calls)
        (_, built, options), (_, (loaded,), _) = calls.mock_calls
        self.assertNotEqual(base, loaded)
        self.assertEqual(loaded, built[built.index("--tag") + 1])
        # Without a step of its own, the builder would take the base's image for it.
        self.assertRegex(options["stdin"], f"^FROM {re.escape(base)}\nUSER ")
        container = network_policy.stranger("n")["spec"]["containers"][0]
        self.assertEqual(loaded, container["image"])

    def start_policyd(self, image):
        """What was applied, with a policyd-image.sh that prints or raises `image`."""
        applied = []

        def kubectl(verb, *_, stdin=None):
            if verb == "apply":
                applied.append(stdin)

        network_policy.start_policyd(unittest.mock.Mock(
            steps=unittest.mock.Mock(**{"left.return_value": 60}), kubectl=kubectl,
            call=unittest.mock.Mock(side_effect=[image] if isinstance(image, str) else image)))
        return applied

    def test_policyd_runs_from_the_image_that_was_made(self):
        manifest, = self.start_policyd("policyd-image: building\nlockstep-policyd:0a1b2c3d")
        self.assertRegex(manifest, "\n +image: lockstep-policyd:0a1b2c3d\n")
        self.assertNotIn("IMAGE", manifest.partition("\n")[2])

    def test_it_is_skipped_only_where_the_kernel_cannot(self):
        with self.assertRaisesRegex(Skipped, "ipset: Kernel error"):
            self.start_policyd(subprocess.CalledProcessError(3, "policyd-image.sh", stderr="ipset: Kernel error\n"))
        with self.assertRaises(subprocess.CalledProcessError):
            self.start_policyd(subprocess.CalledProcessError(1, "policyd-image.sh", stderr="no such module\n"))

    def test_a_rule_that_policyd_leaves_behind_fails_the_scenario(self):
        cluster = unittest.mock.Mock(**{"items.return_value": [{"metadata": {"name": name}} for name in "ab"]})
        with unittest.mock.patch.object(network_policy, "ENGINE", network_policy.POLICYD):
            cluster.call.side_effect = ["-P FORWARD ACCEPT", "-P FORWARD ACCEPT"]
            network_policy.clean_up(cluster)
            cluster.call.side_effect = ["-P FORWARD ACCEPT", "-A FORWARD -j KUBE-ROUTER-FORWARD"]
            with self.assertRaisesRegex(Failure, r'found \["b"\]'):
                network_policy.clean_up(cluster)

    def test_policies_are_enforced_once_two_connections_in_a_row_fail(self):
        for answers, enforced in ((["open", "shut", "open", "shut", "shut"], True), (itertools.cycle(["shut", "open"]), False)):
            clock = itertools.count()
            with unittest.mock.patch.object(network_policy, "reaches", side_effect=(one == "open" for one in answers)), \
                    unittest.mock.patch.object(network_policy, "Job"), \
                    unittest.mock.patch.object(network_policy.time, "monotonic", side_effect=lambda: next(clock)):
                self.assertEqual(enforced, network_policy.is_enforced(unittest.mock.Mock()))


class LifecycleScenarioTest(unittest.TestCase):
    def test_a_job_that_fails_before_its_deadline_fails_the_scenario(self):
        lifecycle.check_lived(10, "2026-01-31T12:00:00Z", {"lastTransitionTime": "2026-01-31T12:00:09Z"})
        with self.assertRaises(Failure):
            lifecycle.check_lived(10, "2026-01-31T12:00:00Z", {"lastTransitionTime": "2026-01-31T12:00:08Z"})


class LintTest(unittest.TestCase):
    def test_paths_of_one_machine_are_found(self):
        for folders in (["root", "x"], ["home", "ada", "src"], ["Users", "ada", "x"]):
            line = "see '/" + "/".join(folders) + "'"
            self.assertTrue(lint.MACHINE_PATH.search(line), line)
        for line in ("/data/mnist", "$ROOT/root/x", "https://example.org/root/x", "a/root/b"):
            self.assertFalse(lint.MACHINE_PATH.search(line), line)

    def test_comments_that_begin_with_their_topic_are_found(self):
        root = temporary_folder(self)
        good = ["// The step of variants.", "// Of's last result", "Of(x);  // of the model", "# Often", "# Likewise()", "## Of"]
        for before, rest in (("  // ", "Of variants, the last."), ("int a;  // ", "Nor has a stage"), ("# ", "Likewise."),
                             ("// ", "Of"), ("  # ", "Of b: c")):
            comment = before + rest
            with self.subTest(comment), unittest.mock.patch.object(lint, "ROOT", root):
                for name in ("a.cc", "a.md"):
                    (root / name).write_text("\n".join([*good, comment]))
                word = re.search("Of|Nor|Likewise", comment)[0]
                self.assertEqual([f"a.cc:7: a comment begins with '{word}', expected subject, verb, object"],
                                 lint.check_comments(["a.cc", "a.md"]))

    def test_clang_tidy_sees_every_folder_of_ours_but_the_tests(self):
        code = re.search(r"^CODE = \((.*)\)$", (TOOLS.parent / "tests" / "layering_test.py").read_text(), re.MULTILINE)
        headers = re.search(r"^HeaderFilterRegex: '(.*)'$", (TOOLS.parent / ".clang-tidy").read_text(), re.MULTILINE)
        for folder in re.findall(r'"(\w+)"', code[1]):
            self.assertTrue(lint.is_tidied(f"{folder}/a.cc"), folder)
            self.assertTrue(re.search(headers[1], f"{TOOLS.parent}/{folder}/a.h"), folder)
        self.assertFalse(lint.is_tidied("tests/base/a_test.cc"))

    def test_a_changed_header_changes_the_key_of_who_includes_it(self):
        for header, changed in (("c.h", "c.h"), ("c.pb.h", "c.proto"), ("c.grpc.pb.h", "c.proto")):
            with self.subTest(header):
                root = temporary_folder(self)
                (root / "a.cc").write_text('#include "b.h"\n')
                (root / "b.h").write_text(f'#include "{header}"\n')
                (root / changed).write_text("int c;\n")
                with unittest.mock.patch.object(lint, "ROOT", root):
                    before = lint.Inputs().digest("a.cc").hexdigest()
                    self.assertEqual(before, lint.Inputs().digest("a.cc").hexdigest())
                    (root / changed).write_text("long c;\n")
                    self.assertNotEqual(before, lint.Inputs().digest("a.cc").hexdigest())

    def test_a_clang_tidy_that_does_not_end_by_itself_is_a_fault_and_not_remembered(self):
        folder = temporary_folder(self)
        root, cache = folder / "root", folder / "deps/lint-cache"
        root.mkdir()
        (root / "a.cc").write_text("int a;\n")
        (root / ".clang-tidy").touch()
        (folder / "compile_commands.json").write_text(json.dumps(
            [{"file": str(root / "a.cc"), "command": "c++ -O2 -o a.o -c a.cc", "directory": str(root)}]))
        tidy = folder / "clang-tidy"
        for ends, faults, remembered in (("kill -9 $$", ["a.cc: clang-tidy ended with -9, expected 0"], 0),
                                         ("exit 0", [], 1)):
            write_program(tidy, f'[ "$1" = --version ] || {ends}')
            with unittest.mock.patch.multiple(lint, TIDY=str(tidy), ROOT=root, DEPS=folder / "deps",
                                              build_generated_headers=lambda _: None), \
                    contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(faults, lint.check_tidy(str(folder), 1))
            self.assertEqual(remembered, len(list(cache.iterdir())))

    def test_without_a_configured_build_clang_tidy_is_one_fault_that_says_what_to_do(self):
        self.assertEqual(["clang-tidy: found no compile_commands.json in build/lint; "
                          "`tools/build --configure lint` writes it"],
                         lint.check_tidy(str(temporary_folder(self) / "lint"), 1))

    def units_of(self, changed):
        """(file, names of the sources) of each unit of a library of four sources and a single one."""
        root = temporary_folder(self)
        (root / ".clang-tidy").touch()
        unity = root / "build/lint/lib/Unity/unity_0_cxx.cxx"
        unity.parent.mkdir(parents=True)
        sources = [root / f"lib/{name}.cc" for name in "abcd"]
        unity.write_text("".join(f'#include "{path}"\n\n' for path in sources))
        (root / "lib").mkdir()
        for path in [*sources, root / "single.cc"]:
            path.write_text(f"int {path.stem};\n")
        commands = [{"file": str(path), "command": f"c++ -O2 -o x.o -c {path}", "directory": str(root)}
                    for path in (unity, root / "single.cc", root / "tests/a_test.cc")]
        (root / "compile_commands.json").write_text(json.dumps(commands))
        program = root / "clang-tidy"
        write_program(program, "echo 1")
        with unittest.mock.patch.multiple(lint, ROOT=root, TIDY=str(program)):
            keys = {name: key for unit in lint.units_to_tidy(str(root), lambda _: False)
                    for name, key in zip(unit.names, unit.keys)}
            clean = {key for name, key in keys.items() if name not in changed}
            units = list(lint.units_to_tidy(str(root), clean.__contains__))
        self.assertEqual({("-O2",)}, {tuple(unit.flags) for unit in units})
        return [(pathlib.Path(unit.file).name, unit.names) for unit in units]

    def test_many_sources_of_a_library_are_looked_at_at_once_and_few_one_by_one(self):
        self.assertEqual([("unity_0_cxx.cxx", ["lib/a.cc", "lib/b.cc", "lib/d.cc"]), ("single.cc", ["single.cc"])],
                         self.units_of(["lib/a.cc", "lib/b.cc", "lib/d.cc", "single.cc"]))
        self.assertEqual([("a.cc", ["lib/a.cc"]), ("d.cc", ["lib/d.cc"])], self.units_of(["lib/a.cc", "lib/d.cc"]))


class YardstickTest(unittest.TestCase):
    def test_a_slow_machine_gets_more_time_and_a_fast_one_no_less(self):
        self.assertEqual(300, yardstick.percent(3 * yardstick.REFERENCE_SECONDS, cores=2))
        self.assertEqual(100, yardstick.percent(yardstick.REFERENCE_SECONDS / 2, cores=2))

    def test_less_than_two_cores_get_more_time_and_more_no_less(self):
        self.assertEqual(200, yardstick.percent(yardstick.REFERENCE_SECONDS, cores=1))
        self.assertEqual(400, yardstick.percent(yardstick.REFERENCE_SECONDS, cores=0.5))
        self.assertEqual(100, yardstick.percent(yardstick.REFERENCE_SECONDS, cores=64))

    def test_a_processor_with_fewer_vector_instructions_gets_more_time(self):
        every = "fpu sse4_1 fma avx2 avx512f avx512dq avx512bw avx512vl"
        for flags, percent in ((f"flags\t\t: {every}\n", 200), ("flags\t\t: fpu sse4_1 fma avx2\n", 340),
                               ("flags : avx sse4_1\n", 880), ("flags : fma avx512f avx2\n", 340),
                               ("Features : asimd\n", 880)):
            with self.subTest(flags):
                root = temporary_folder(self)
                (root / "proc").mkdir()
                (root / "proc/cpuinfo").write_text(f"processor\t: 0\n{flags}processor\t: 1\n{flags}")
                self.assertEqual(percent, yardstick.percent(
                    2 * yardstick.REFERENCE_SECONDS, 2, yardstick.vector_slowness(root)))

    def test_a_quota_is_the_least_of_the_cgroups(self):
        for cgroup, files, cores in (
                ("0::/a/b\n", {"a/cpu.max": "150000 100000\n", "a/b/cpu.max": "max 100000\n"}, 1.5),
                ("0::/\n", {}, float("inf")),
                (None, {}, float("inf")),
                ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5),
                ("3:cpu,cpuacct:/c\n2:memory:/c\n0::/\n",
                 {"cpu/c/cpu.cfs_quota_us": "66000\n", "cpu/c/cpu.cfs_period_us": "100000\n",
                  "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.66)):
            with self.subTest(cgroup), tempfile.TemporaryDirectory() as folder:
                root = pathlib.Path(folder)
                (root / "proc/self").mkdir(parents=True)
                if cgroup is not None:
                    (root / "proc/self/cgroup").write_text(cgroup)
                for name, text in files.items():
                    path = root / "sys/fs/cgroup" / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text)
                self.assertAlmostEqual(cores, yardstick.quota(root))

    def test_it_prints_a_number_that_cmake_can_multiply_with(self):
        done = subprocess.run([str(TOOLS / "yardstick")], stdout=subprocess.PIPE, text=True,
                              check=True)
        self.assertGreaterEqual(int(done.stdout), 100)


class BenchTest(unittest.TestCase):
    def test_a_wrong_number_is_refused_before_anything_is_measured(self):
        for flag, number in (("--rounds", "0"), ("--threads", "0"), ("--steps", "-1"), ("--warmup", "-1")):
            done = subprocess.run(
                [TOOLS / "bench/bench", "--trainer", "true", "--lockstep", "true", "--data", "/", flag, number],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(2, done.returncode, done.stderr)
            self.assertIn(f"argument {flag}: found {number}, expected", done.stderr)

    def test_medians_ratios_and_scaling(self):
        found = {("SGEMM GFLOP/s", "machine"): [300, 332, 340]}
        for what, ours, torch, tensorflow in (
                ("core-cnn, 2 threads", [1, 3200, 9000], [2000] * 3, [2500] * 3),
                ("core-cnn, 1 thread", [1600] * 3, [1200] * 3, [1500] * 3),
                ("core-cnn, 2 workers of 1 core", [3040] * 3, [2040] * 3, [1800] * 3)):
            found |= {(what, "lockstep"): ours, (what, "pytorch"): torch,
                      (what, "tensorflow"): tensorflow}
        options = argparse.Namespace(models=["core-cnn"], batch=128, warmup=30, steps=300, rounds=3,
                                     isa="avx2", activation_checkpointing="None")
        summary = bench.summarize(found, options, threads=2)
        self.assertEqual(3200, summary["rows"][0]["lockstep"])
        self.assertAlmostEqual(3200 / 2500, summary["rows"][0]["ratio_to_best_rival"])
        self.assertAlmostEqual(1.9, summary["scaling"]["lockstep"])
        self.assertAlmostEqual(1.2, summary["scaling"]["tensorflow"])
        self.assertAlmostEqual(3200 * 83 / 1000 / 332, summary["core_cnn_share_of_sgemm"])
        self.assertEqual("avx2", summary["machine"]["instruction_set"])
        self.assertNotIn("sync_server_of_all_reduce", summary)

    def test_servers_stand_beside_tensorflows_and_beside_all_reduce(self):
        found = {("SGEMM GFLOP/s", "machine"): [300], ("core-cnn, 2 workers of 1 core", "lockstep"): [4000],
                 ("core-cnn, 1 thread", "lockstep"): [2500], ("core-cnn, 2 workers and an async server", "lockstep"): [4400],
                 ("core-cnn, 2 workers and an async server", "tensorflow"): [2000],
                 ("core-cnn, 2 workers and a sync server", "lockstep"): [3800]}
        options = argparse.Namespace(models=["core-cnn"], batch=128, warmup=30, steps=300, rounds=1, isa="native",
                                     activation_checkpointing="None")
        summary = bench.summarize(found, options, threads=2)
        rows = {row["what"]: row["ratio_to_best_rival"] for row in summary["rows"]}
        self.assertAlmostEqual(2.2, rows["core-cnn, 2 workers and an async server"])
        self.assertIsNone(rows["core-cnn, 2 workers and a sync server"])
        self.assertAlmostEqual(0.95, summary["sync_server_of_all_reduce"])
        with contextlib.redirect_stdout(io.StringIO()) as table:
            bench.print_table({**summary, "scaling": {}})
        self.assertRegex(table.getvalue(), r"sync server +3,800 +- +- +-\n")
        self.assertRegex(table.getvalue(), r"sync server / all-reduce, ours +0\.95x")

    def test_parts_can_be_left_out(self):
        options = argparse.Namespace(models=["core-cnn"], parts=["servers"], rounds=1, threads=2)
        one = bench.Bench(argparse.Namespace(threads=2, isa="native"))
        one.cpus = [0, 1]
        with unittest.mock.patch.multiple(one, sgemm=lambda: 300, two_workers=lambda *_: 4000,
                                          sync_server=lambda _: 3800, async_server=lambda *_: 4400):
            with contextlib.redirect_stderr(io.StringIO()):
                found = bench.measure(one, options)
        self.assertEqual([("SGEMM GFLOP/s", "machine"), ("core-cnn, 2 workers and an async server", "lockstep"),
                          ("core-cnn, 2 workers and an async server", "tensorflow"),
                          ("core-cnn, 2 workers and a sync server", "lockstep"),
                          ("core-cnn, 2 workers of 1 core", "lockstep")], list(found))

    def test_tensorflows_servers_end_with_the_measurement(self):
        options = argparse.Namespace(models=["core-cnn"], batch=128, warmup=1, steps=2, threads=1, isa="native",
                                     timeout=30, python=sys.executable, data="/data")
        one, begun = bench.Bench(options), []

        def start(command, cpus, environment):
            task = json.loads(environment["TF_CONFIG"])["task"]["type"]
            said = "print('{\"images_per_second\": 7}')" if task == "chief" else "import time; time.sleep(60)"
            begun.append((task, contestants.start([sys.executable, "-c", said], cpus, environment)))
            return begun[-1][1]

        with unittest.mock.patch.object(one, "_start", start):
            self.assertEqual(7, one.async_server("tensorflow", "core-cnn"))
        self.assertEqual(["ps", "worker", "worker", "chief"], [task for task, _ in begun])
        self.assertEqual([-signal.SIGKILL] * 3 + [0], [process.returncode for _, process in begun])

    def test_a_large_model_has_its_own_batch_and_rivals_and_less_memory_is_better(self):
        options = argparse.Namespace(models=["resnet-50"], batch=128, warmup=30, steps=300, rounds=1, isa="native",
                                     threads=2, parts=bench.PARTS, trainer="trainer", python="python", data="/data",
                                     activation_checkpointing="Selective")
        one, asked = bench.Bench(options), []

        def said(contestant, commands):
            asked.extend(commands)
            return {"images_per_second": {"lockstep": 9.0, "pytorch": 6.0}[contestant],
                    "peak_bytes": {"lockstep": 3e9, "pytorch": 4e9}[contestant]}

        with unittest.mock.patch.multiple(one, sgemm=lambda: 300, _said=said,
                                          _start=lambda command, cpus: command):
            with contextlib.redirect_stderr(io.StringIO()):
                summary = bench.summarize(bench.measure(one, options), options, threads=len(one.cpus))
        ours, theirs = asked
        for command in asked:
            self.assertIn("--batch 32 --steps 6 --warmup 2", " ".join(command))
            self.assertNotIn("/data", command)
        self.assertIn("--sample-shape 3,224,224 --classes 1000", " ".join(ours))
        self.assertIn("--activation-checkpointing Selective", " ".join(ours))
        self.assertEqual("Selective", summary["activation_checkpointing"])
        self.assertTrue(theirs[1].endswith("torch_rival.py"))
        speed, memory = summary["rows"]
        self.assertAlmostEqual(1.5, speed["ratio_to_best_rival"])
        self.assertNotIn("tensorflow", speed)
        self.assertEqual("resnet-50, peak MB", memory["what"])
        self.assertAlmostEqual(0.75, memory["ratio_to_best_rival"])
        table = io.StringIO()
        with contextlib.redirect_stdout(table):
            bench.print_table(summary)
        self.assertRegex(table.getvalue(), r"resnet-50, \d threads +9\.00 +6\.00 +- +1\.50x")

    def test_every_contestant_is_held_to_the_instruction_set(self):
        options = argparse.Namespace(threads=1, isa="avx2", timeout=30)
        show = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
        one = bench.Bench(options)
        seen, = contestants.finish([one._start(show, one.cpus, {"RANK": "1"})], options.timeout)
        self.assertEqual(("AVX2", "avx2", "1"), (seen["ONEDNN_MAX_CPU_ISA"],
                                                 seen["ATEN_CPU_CAPABILITY"], seen["RANK"]))

    def test_the_circumstances_are_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            trainer = pathlib.Path(folder, "trainer")
            write_program(trainer, "echo trainer 1.2")
            one = bench.Bench(argparse.Namespace(threads=1, isa="native", timeout=30, trainer=str(trainer)))
            said = [sys.executable, "-c", "print('{\"images_per_second\": 5, \"version\": \"2.0\"}')"]
            self.assertEqual(5, one._speed("pytorch", [one._start(said, one.cpus)]))
            told = contestants.circumstances({"lockstep": contestants.version_of(str(trainer)), **one.versions})
            with unittest.mock.patch.dict(os.environ, PATH=folder):
                self.assertEqual("trainer 1.2", contestants.version_of(str(trainer)), "where there is no git")
        self.assertEqual("2.0", told["versions"]["pytorch"])
        self.assertRegex(told["versions"]["lockstep"], r"^trainer 1\.2")
        self.assertRegex(told["date"], r"^\d{4}-\d\d-\d\d$")

    def test_the_result_is_the_last_object_of_the_output(self):
        self.assertEqual({"a": 2}, contestants.last_json('noise\n{"a": 1}\n{"a": 2}\nmore\n', ["x"]))


class PipelinesTest(unittest.TestCase):
    def test_medians_and_ratios_to_the_faster_rival(self):
        found = {("JPEG in folders", "lockstep"): [900, 1000, 1400], ("JPEG in folders", "tensorflow"): [800] * 3,
                 ("JPEG in folders", "torchvision"): [400] * 3, ("JPEG in TFRecord", "lockstep"): [700],
                 ("JPEG in TFRecord", "tensorflow"): [1000]}
        folders, records = pipelines.summarize(found)["rows"]
        self.assertEqual((1000, 1.25), (folders["lockstep"], folders["ratio_to_best_rival"]))
        self.assertAlmostEqual(0.7, records["ratio_to_best_rival"])
        with contextlib.redirect_stdout(io.StringIO()) as table:
            pipelines.print_table({"rows": [folders, records], "rounds": 3, "machine": {"threads": 2}})
        self.assertRegex(table.getvalue(), r"JPEG in TFRecord +700 +1,000 +- +0\.70x")

    def test_all_contestants_read_as_many_samples_in_batches_of_one_size(self):
        options = argparse.Namespace(threads=1, divide=3, timeout=30, lockstep="lockstep", python="python",
                                     kinds=["JPEG in folders"], rounds=1)
        one, begun = pipelines.Bench(options, "/made"), []

        def finish(commands, _timeout):
            begun.extend(commands)
            return [{"images_per_second": 5, "samples_per_second": 4, "version": "1.0"}]

        with unittest.mock.patch.multiple(pipelines, finish=finish, start=lambda command, *_: command):
            with contextlib.redirect_stderr(io.StringIO()):
                found = pipelines.measure(one, options)
        ours, tensorflow, torchvision = (" ".join(command) for command in begun)
        self.assertIn("spec.training.batchSize.global=32 --set spec.training.steps=62", ours)
        self.assertIn("cache: false", ours)
        for rival in (tensorflow, torchvision):
            self.assertIn("--data /made/folders --batch 32 --samples 2000 --threads 1", rival)
        self.assertEqual([4], found["JPEG in folders", "torchvision"])
        self.assertEqual("1.0", one.versions["tensorflow"])


class Aarch64Test(unittest.TestCase):
    def test_tests_are_counted_by_their_full_names(self):
        listing = ("Running main() from gmock_main.cc\nPlainTest.\n  Works\n  Fails\n"
                   "Ops/CpuTest.  # TypeParam = int\n  Agrees/0  # GetParam() = \"a.b\"\n")
        self.assertEqual(["PlainTest.Works", "PlainTest.Fails", "Ops/CpuTest.Agrees/0"],
                         list(aarch64.tests_in(listing)))


class GenCrdTest(unittest.TestCase):
    """On an API server in small: a port list with keys that Kubernetes fills in, and a quantity."""

    OPENAPI = {"components": {"schemas": {
        "io.k8s.api.core.v1.PodTemplateSpec": {"type": "object", "properties": {
            "metadata": {"allOf": [{"$ref": "#/x/ObjectMeta"}], "default": {}},
            "spec": {"allOf": [{"$ref": "#/x/Spec"}], "default": {}, "description": "Of the pod. More."}}},
        "Spec": {"type": "object", "required": ["containers", "name"], "properties": {
            "name": {"type": "string", "default": "", "description": "A name, e.g. a b. It is long."},
            "ephemeralContainers": {"type": "array", "items": {"type": "string"}},
            "containers": {"type": "array", "x-kubernetes-patch-strategy": "merge",
                           "items": {"allOf": [{"$ref": "#/x/Port"}], "default": {}},
                           "x-kubernetes-list-type": "map",
                           "x-kubernetes-list-map-keys": ["port", "protocol"]},
            "limit": {"$ref": "#/x/io.k8s.apimachinery.pkg.api.resource.Quantity"}}},
        "Port": {"type": "object", "required": ["port"], "description": "A port.", "properties": {
            "port": {"type": "integer", "format": "int32", "default": 0},
            "protocol": {"type": "string", "default": "TCP"}}},
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {
            "type": "string", "description": "Quantity is a number.\n\nAnd so on."}}}}

    def setUp(self):
        self.template = gen_crd.PodTemplate(self.OPENAPI).schema()
        self.spec = self.template["properties"]["spec"]["properties"]

    def test_a_first_sentence_ends_where_another_begins(self):
        for text, first in (("One. Two.", "One."), ("Use e.g. Go. Or not.", "Use e.g. Go."),
                            ("As in a.b.c: d\ne", "As in a.b.c: d e"), ("No end", "No end"),
                            ("One.\n\nMore info: x", "One.")):
            self.assertEqual(first, gen_crd.first_sentence(text))

    def test_references_are_followed_and_defaults_dropped(self):
        self.assertEqual("Of the pod.", self.template["properties"]["spec"]["description"])
        self.assertEqual({"type": "string", "description": "A name, e.g. a b."}, self.spec["name"])
        self.assertEqual({"anyOf": [{"type": "integer"}, {"type": "string"}],
                          "x-kubernetes-int-or-string": True,
                          "description": "Quantity is a number."}, self.spec["limit"])

    def test_containers_are_not_required_but_not_empty(self):
        self.assertEqual(["name"], self.template["properties"]["spec"]["required"])
        self.assertEqual((1, 256), (self.spec["containers"]["minItems"],
                                    self.spec["containers"]["maxItems"]))

    def test_what_no_pod_can_have_is_left_out(self):
        self.assertNotIn("ephemeralContainers", self.spec)

    def test_a_key_of_a_list_keeps_its_default(self):
        ports = self.spec["containers"]["items"]["properties"]
        self.assertEqual("TCP", ports["protocol"]["default"])
        self.assertNotIn("default", ports["port"])

    def test_a_rule_for_each_role_becomes_four(self):
        source = {"rules": [{"rule": "a"}, {"x-each": ["Chief", "Worker", "PS", "Evaluator"],
                                            "rule": "'EACH' in self"}]}
        self.assertEqual(["a", "'Chief' in self", "'Worker' in self", "'PS' in self",
                          "'Evaluator' in self"],
                         [entry["rule"] for entry in gen_crd.expanded(source, {})["rules"]])

    def test_the_root_has_two_rules_of_all(self):
        rules, schema = self.gathered(
            {"rule": "self.spec.a == 1", "message": "expected 1", "fieldPath": ".spec.a"},
            {"rule": "self.a == oldSelf.a", "message": "cannot be changed", "fieldPath": ".a"})
        self.assertEqual(2, len(rules))
        self.assertTrue(rules[0]["rule"].startswith("has(self.status) || "))
        self.assertTrue(rules[1]["rule"].startswith(gen_crd.STATUS_WRITE + " || "))
        self.assertNotIn("x-kubernetes-validations", schema["properties"]["spec"])

    def test_a_new_job_is_not_asked_what_a_change_is(self):
        new, changed = (rule["rule"] for rule in self.gathered(
            {"rule": "self.spec.a == 1", "message": "m"},
            {"rule": "self.a == oldSelf.a", "message": "m"})[0])
        self.assertNotIn("oldSelf", new)
        self.assertIn("(self.spec.a == oldSelf.spec.a)", changed)

    def test_what_a_change_leaves_as_it_is_is_not_asked_again(self):
        changed = self.gathered({"rule": "self.spec.a == 1", "message": "m"},
                                {"rule": "self.b == 2", "message": "m"})[0][1]["rule"]
        for name, value in (("a", 1), ("b", 2)):
            now, before = f"self.spec.{name}", f"oldSelf.spec.{name}"
            self.assertIn(f"has({now}) == has({before}) && (!has({now}) || {now} == {before}) || "
                          f"({now} == {value})", changed)

    def test_only_the_fields_of_a_rule_count_as_changed_though_they_may_be_absent(self):
        changed = self.gathered({"rule": "true", "message": "m"},
                                {"rule": "self.?b.c.orValue(1) == 1", "message": "m"})[0][1]["rule"]
        self.assertIn("has(self.spec.b) == has(oldSelf.spec.b) && ", changed)
        self.assertNotIn("self.spec == oldSelf.spec", changed)

    def test_a_message_names_the_field(self):
        told = self.gathered({"rule": "self.spec.a == 1", "message": "m", "fieldPath": ".spec.a"},
                             {"rule": "true", "message": "n", "fieldPath": ".b"})[0][0]
        self.assertIn('"; spec.a: " + "m"', told["messageExpression"])
        self.assertIn('"; spec.b: " + "n"', told["messageExpression"])

    @staticmethod
    def gathered(of_root, of_spec):
        schema = {"x-kubernetes-validations": [of_root], "required": ["spec"],
                  "properties": {"spec": {"x-kubernetes-validations": [of_spec]}}}
        gen_crd.gather_rules(schema)
        return schema["x-kubernetes-validations"], schema

    def test_a_marked_node_becomes_the_template(self):
        self.assertEqual({"t": {"type": "object", "description": "Ours."}}, gen_crd.expanded(
            {"t": {"x-pod-template": True, "description": "Ours."}},
            {"type": "object", "description": "Theirs."}))


if __name__ == "__main__":
    sys.exit(unittest.main())
