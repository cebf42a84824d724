"""The programs as built have what cmake/Hardening.cmake asks for."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["LOCKSTEP_BIN"])
PROGRAMS = ("lockstep", "lockstep-operator", "lockstep-trainer")


def readelf(option, program):
    return subprocess.run(["readelf", "--wide", option, program], check=True,
                          stdout=subprocess.PIPE, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def segment_flags(segments, name):
    """Such as "RW", or None if there is no such segment."""
    found = re.search(rf"^\s+{name}\s+(?:0x\w+\s+){{5}}([RWE ]{{3}})", segments, re.MULTILINE)
    return found and found.group(1).replace(" ", "")


def weaknesses(program):
    """What it lacks, by name."""
    segments, dynamic = readelf("--segments", program), readelf("--dynamic", program)
    symbols = set(re.findall(r"\s(\w+)@", readelf("--dyn-syms", program)))
    flags = " ".join(re.findall(r"\(FLAGS(?:_1)?\)\s+(.*)", dynamic))
    has = {
        "position-independent": "Elf file type is DYN" in segments and "PIE" in flags,
        "relocations read-only": segment_flags(segments, "GNU_RELRO") is not None,
        "symbols bound at the start": re.search(r"BIND_NOW|\bNOW\b", flags) is not None,
        "stack not executable": segment_flags(segments, "GNU_STACK") == "RW",
        "stack protector": "__stack_chk_fail" in symbols,
        "fortified calls": any(re.fullmatch(r"__\w+_chk", name) for name in symbols),
    }
    return {name for name, holds in has.items() if not holds}


class HardeningTest(unittest.TestCase):
    def test_the_programs_lack_nothing(self):
        for name in PROGRAMS:
            with self.subTest(name):
                self.assertEqual(set(), weaknesses(BIN / name))

    def test_what_a_program_lacks_is_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "weak"
            subprocess.run([os.environ.get("CXX", "c++"), "-x", "c++", "-", "-o", program,
                            "-no-pie", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-z", "execstack",
                            "-z", "norelro", "-z", "lazy"],
                           input="int main() {}", text=True, check=True,
                           stderr=subprocess.DEVNULL)  # ld warns of the stack
            self.assertEqual({"position-independent", "relocations read-only",
                              "symbols bound at the start", "stack not executable",
                              "stack protector", "fortified calls"}, weaknesses(program))


if __name__ == "__main__":
    unittest.main()
