"""Which wheels Debian's Pythons take on x86-64, and the lists of them that tools/peers/pin writes."""
import re

# Debian 12 has glibc 2.36.
PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)), "manylinux2014_x86_64",
             "manylinux2010_x86_64", "manylinux1_x86_64", "any")
MARKER = re.compile(r' ; python_version == "([0-9.]+)"')


def pip_options(python):
    """For the wheels of a Python that need not be the one that runs pip."""
    return ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}",
            *(f"--platform={name}" for name in PLATFORMS)]


def read(text, python):
    """{name: requirement with its sums} of a list, as far as it is for this Python. pip itself would take the
    Python that it runs on for the one that is meant."""
    found = {}
    for requirement in re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "").splitlines():
        marker = MARKER.search(requirement)
        if marker is None or marker.group(1) == python:
            found[requirement.split("==")[0]] = MARKER.sub("", requirement)
    return found
