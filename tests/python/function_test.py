"""Functions are packed so that the program does what the function does, or are refused with a reason."""
import builtins
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from lockstep import InvalidJob, TrainingJob

OUTSIDE = 3


def write_environment(path: pathlib.Path, words: "list[str]", rate: float = 0.5, *,
                      nested: subprocess.Popen = None) -> unittest.TestCase:
    """A docstring with $(HOME), $$ and "quotes"."""
    import json as other
    import os

    class Inner:
        factor: int = 2

        def twice(self, value: "float") -> "float":
            return value * self.factor

    def costs(word: str) -> str:
        return f"${word}"

    total: unittest.TestCase = sum(Inner().twice(one) for one in [rate])
    with open(path, "w", encoding="utf-8") as file:
        other.dump({"words": [costs(word) for word in words], "total": total, "nested": nested,
                    "rank": os.environ.get("RANK"), "name": __name__}, file)


def countdown(number: int) -> int:
    return 0 if number == 0 else countdown(number - 1)


def uses_a_global():
    return OUTSIDE + 1


def uses_a_module():
    return json.dumps({})


def with_a_default(value=OUTSIDE):
    return value


@unittest.skip("not a test")
def decorated():
    pass


def generator():
    yield 1


async def coroutine():
    pass


def fine(number=1):
    return number


def container_of(job):
    return job.spec["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]


def run(job, **environment):
    """Runs the container's command as a kubelet would: $$ stands for $."""
    words = [word.replace("$$", "$") for word in container_of(job)["command"]]
    return subprocess.run([sys.executable, *words[1:5], sys.executable, *words[6:]], check=True, text=True,
                          stdout=subprocess.PIPE, env={**os.environ, **environment})


class FunctionTest(unittest.TestCase):
    def test_the_program_does_what_the_function_does(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "result.json")
            words = ["HOME", "'single'", '"double"', "back\\slash\n", "ü", "$(RANK)", "$$"]
            args = {"path": str(path), "words": words, "rate": 1.25, "nested": {"a": [None, True, 1e-3]}}
            job = TrainingJob.from_function(write_environment, image="x", args=args)
            run(job, RANK="7", TMPDIR=folder)
            found = json.loads(path.read_text())
        self.assertEqual({"words": ["$" + word for word in words], "total": 2.5, "nested": {"a": [None, True, 0.001]},
                          "rank": "7", "name": "__main__"}, found)
        self.assertEqual("write-environment", job.name)

    def test_every_dollar_is_doubled_since_kubernetes_replaces_variables(self):
        program = container_of(TrainingJob.from_function(write_environment, image="x",
                                                         args={"path": "p", "words": []}))["command"][4]
        self.assertIn("$$(HOME), $$$$ and", program)
        self.assertNotIn("$", program.replace("$$", ""))

    def test_recursion_and_functions_inside_are_fine(self):
        def inside(number: int) -> int:
            return number

        run(TrainingJob.from_function(countdown, image="x", args={"number": 3}))
        run(TrainingJob.from_function(inside, image="x", args={"number": 3}))

    def test_a_function_may_have_the_name_of_a_module(self):
        def queue():
            from concurrent.futures import ThreadPoolExecutor  # which imports queue

            print(ThreadPoolExecutor().submit(abs, -3).result())

        self.assertEqual("3\n", run(TrainingJob.from_function(queue, image="x")).stdout)

    def test_a_text_of_several_lines_inside_is_left_as_it_is(self):
        def indented(path: str) -> None:
            text = """
  two
            twelve
"""
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "text")
            run(TrainingJob.from_function(indented, image="x", args={"path": str(path)}))
            self.assertEqual("\n  two\n            twelve\n", path.read_text())

    def test_the_launcher_and_the_options_are_taken(self):
        job = TrainingJob.from_function(fine, image="x", name="f", launcher=["torchrun", "--standalone"], replicas=4,
                                        framework="pytorch", resources={"cpu": "1"})
        container = container_of(job)
        self.assertEqual(["torchrun", "--standalone"], container["command"][5:])
        self.assertEqual(("f", "pytorch", 4), (job.name, container["name"],
                                               job.spec["replicaSpecs"]["Worker"]["replicas"]))

    def test_what_cannot_be_sent_is_named(self):
        bound = 1

        def closure():
            return bound

        for function, args, said in (
                (lambda: 1, {}, "found a lambda"),
                (closure, {}, "closure: found a closure over bound"),
                (self.test_what_cannot_be_sent_is_named, {}, "found a method"),
                (print, {}, "print: found an object of type builtin_function_or_method"),
                (FunctionTest, {}, "FunctionTest: found an object of type type"),
                (generator, {}, "generator: found a coroutine or a generator"),
                (coroutine, {}, "coroutine: found a coroutine or a generator"),
                (decorated, {}, "decorated: found "),
                (uses_a_global, {}, "uses_a_global: found OUTSIDE of the module around it"),
                (uses_a_module, {}, "uses_a_module: found json of the module around it"),
                (with_a_default, {}, "with_a_default: found OUTSIDE"),
                (fine, {"nothing": 1}, "fine: found arguments that do not fit fine(number=1): got an unexpected"),
                (countdown, {}, "missing a required argument: 'number'"),
                (fine, {"number": (1, 2)}, "fine: found (1, 2) for the argument number"),
                (fine, {"number": {1: 2}}, "found {1: 2} for the argument number"),
                (fine, {"number": "x" * 200_000}, "expected at most 120000; put the program into the image")):
            with self.assertRaises(InvalidJob) as raised:
                TrainingJob.from_function(function, image="x", name="f", args=args)
            self.assertIn(said, str(raised.exception))

    def test_the_builtins_of_a_notebook_are_not_those_of_the_container(self):
        def installs():
            get_ipython().system("pip install foo")  # noqa: F821: what IPython makes of !pip install foo

        def shows():
            display(1)  # noqa: F821

        def asks():
            return __IPYTHON__  # noqa: F821

        def ends():
            exit(0)

        added = {name: None for name in ("get_ipython", "display", "__IPYTHON__")}
        with unittest.mock.patch.multiple(builtins, create=True, **added), \
                unittest.mock.patch.object(builtins, "exit"):
            del builtins.exit
            for function, said in ((installs, "installs: found a line for IPython, such as !pip or %time"),
                                   (shows, "shows: found display of the module around it"),
                                   (asks, "asks: found __IPYTHON__ of the module around it")):
                with self.assertRaises(InvalidJob) as raised:
                    TrainingJob.from_function(function, image="x")
                self.assertIn(said, str(raised.exception))
            run(TrainingJob.from_function(ends, image="x"))

    def test_a_function_without_source_is_named(self):
        names = {}
        exec("def typed():\n    pass\n", names)
        with self.assertRaisesRegex(InvalidJob, "typed: found no source"):
            TrainingJob.from_function(names["typed"], image="x")

    def test_an_option_that_a_job_has_not_is_named(self):
        with self.assertRaisesRegex(InvalidJob, "found the arguments command, expected some of namespace, replicas"):
            TrainingJob.from_function(fine, image="x", command=["a"])


if __name__ == "__main__":
    unittest.main()
