"""The programs that `tools/setup chart` sees to, and what the helms render."""
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "charts" / "lockstep"
NAMESPACE = "lockstep-system"
HELMS = ("helm3", "helm4")


class Loader(yaml.SafeLoader):
    """Reads `1e-07` as Kubernetes does, as a number; YAML 1.1 wants a point in it. Refuses equal keys in a mapping,
    as Flux and kustomize do."""

    def construct_mapping(self, node, deep=False):
        found = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if name in found:
                raise yaml.constructor.ConstructorError(problem=f"found the key {name!r} twice",
                                                        problem_mark=key.start_mark)
            found.add(name)
        return super().construct_mapping(node, deep)


Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^-?[0-9]+e[-+]?[0-9]+$"),
                             list("-0123456789"))


def objects(text):
    return [entry for entry in yaml.load_all(text, Loader) if entry]


@functools.cache
def folder():
    return pathlib.Path(subprocess.run([ROOT / "tools" / "chart" / "programs.sh", "where"], check=True,
                                       stdout=subprocess.PIPE, text=True).stdout.strip())


def monitoring_crds():
    """Those of the Prometheus operator."""
    path = pathlib.Path(subprocess.run([ROOT / "tools" / "chart" / "programs.sh", "crds"], check=True,
                                       stdout=subprocess.PIPE, text=True).stdout.strip())
    if not path.is_dir():
        raise FileNotFoundError(f"found no {path}; `tools/setup chart` sees to it")
    return [entry for file in sorted(path.glob("*.yaml")) for entry in objects(file.read_text())]


def program(name):
    """In that folder, else on the PATH."""
    path = shutil.which(name, path=f"{folder()}{os.pathsep}{os.environ['PATH']}")
    if path is None:
        raise FileNotFoundError(f"found no {name} in {folder()}; `tools/setup chart` sees to it")
    return path


def run(name, *arguments, check=True, **options):
    """What it wrote to stdout; with check=False the finished process."""
    # The API server records as the owner of a field what the program calls itself: for users, `helm`.
    called = "helm" if name in HELMS else name
    done = subprocess.run([called, *map(str, arguments)], executable=program(name), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, **options)
    if not check:
        return done
    if done.returncode != 0:
        raise AssertionError(f"{name} {' '.join(map(str, arguments))}: {done.stderr}{done.stdout}")
    return done.stdout


def set_flags(values):
    """Values as `--set-json` flags: {"kueue.enabled": True}."""
    return [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]


def template(values=None, helm="helm3", name="lockstep", namespace=NAMESPACE, hooks=False, **options):
    flags = [] if hooks else ["--no-hooks"]
    return run(helm, "template", name, CHART, f"--namespace={namespace}", *flags,
               *set_flags(values or {}), **options)


def render(values=None, **options):
    return objects(template(values, **options))


def of_kind(entries, kind, name=None):
    found = [entry for entry in entries
             if entry["kind"] == kind and name in (None, entry["metadata"]["name"])]
    if len(found) != 1:
        raise AssertionError(f"found {len(found)} of kind {kind}, expected 1")
    return found[0]
