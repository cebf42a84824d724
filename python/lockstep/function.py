"""Packs a Python function into the command of a container."""
from __future__ import annotations

import ast
import builtins
import inspect
import json
import symtable
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lockstep.errors import InvalidJob

PYTHON = ("python3", "-u")  # unbuffered, so that the log has each line at once
IPYTHON = {"get_ipython", "display", "__IPYTHON__"}  # which it adds to the builtins of a notebook
HIDDEN = {"exit", "quit"}  # which it takes away from them
MOST_BYTES = 120_000  # Linux starts no program with an argument of 128 KiB

# Writes the program into a file, since launchers and multiprocessing run files, and becomes the launcher.
BOOTSTRAP = ("import os, sys, tempfile; path = os.path.join(tempfile.mkdtemp(), sys.argv[1]); "
             "open(path, 'w', encoding='utf-8').write(sys.argv[2]); "
             "os.execvp(sys.argv[3], [*sys.argv[3:], path])")


def command_of(function: Callable[..., object], args: Mapping[str, object], launcher: Sequence[str]) -> list[str]:
    """The command of a container that calls the function. InvalidJob: it cannot be sent; the message says why."""
    program = program_of(function, args)
    if len(program.encode()) > MOST_BYTES:
        raise InvalidJob(f"{function.__name__}: found {len(program.encode())} bytes of source and arguments, expected "
                         f"at most {MOST_BYTES}; put the program into the image, and data into a volume")
    # Kubernetes replaces $(NAME) in a command, and $$ by $. A file queue.py would be imported in place of the library's.
    return ["python3", "-c", BOOTSTRAP, f"run-{function.__name__}.py", program.replace("$", "$$"), *launcher]


def program_of(function: Callable[..., object], args: Mapping[str, object]) -> str:
    """The text of a program that calls the function with these arguments."""
    source = _source(function)
    _check_names(function, source)
    arguments = _json(function, args)
    return (f"from __future__ import annotations\n\n{source}\n\nif __name__ == \"__main__\":\n    import json\n\n"
            f"    {function.__name__}(**json.loads({arguments!r}))\n")


def _source(function: Callable[..., object]) -> str:
    name = getattr(function, "__name__", None) or repr(function)
    if inspect.ismethod(function):
        raise InvalidJob(f"{name}: found a method, expected a function defined by `def` outside of a class")
    if not inspect.isfunction(function):
        raise InvalidJob(f"{name}: found an object of type {type(function).__name__}, expected a function defined "
                         "by `def`")
    if name == "<lambda>":
        raise InvalidJob("found a lambda, expected a function defined by `def`")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or \
            inspect.isasyncgenfunction(function):
        raise InvalidJob(f"{name}: found a coroutine or a generator, expected a function that runs when it is called")
    if function.__code__.co_freevars:
        raise InvalidJob(f"{name}: found a closure over {', '.join(function.__code__.co_freevars)}, expected a "
                         "function that gets these as arguments")
    try:
        source = inspect.getsource(function).rstrip()
    except (OSError, TypeError) as error:
        raise InvalidJob(f"{name}: found no source ({error}), expected a function of a file or a notebook") from error
    # Less indentation would change texts of several lines inside.
    return f"if True:\n{source}" if source[0].isspace() else source


class _WithoutAnnotations(ast.NodeTransformer):
    """Annotations are not evaluated where the program runs."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        value = node.value if node.value is not None else ast.Constant(None)
        return ast.copy_location(ast.Assign([node.target], value), node)


def _check_names(function: Callable[..., object], source: str) -> None:
    """A function finds nothing in the container of what its module or notebook has defined."""
    name = function.__name__
    tree = ast.parse(source)
    definition = tree.body[0].body[0] if isinstance(tree.body[0], ast.If) else tree.body[0]
    if not isinstance(definition, ast.FunctionDef) or definition.name != name:
        raise InvalidJob(f"{name}: found a source that does not begin with `def {name}`, expected a function under "
                         "its own name")
    if definition.decorator_list:
        found = ", ".join("@" + ast.unparse(one) for one in definition.decorator_list)
        raise InvalidJob(f"{name}: found the decorator {found}, expected none: the source runs without its module")
    plain = ast.unparse(ast.fix_missing_locations(_WithoutAnnotations().visit(tree)))
    used, defined = _globals(symtable.symtable(plain, name, "exec"))
    missing = sorted(used - defined - (set(dir(builtins)) - IPYTHON) - HIDDEN - {"__name__", "__file__"})
    if "get_ipython" in missing:  # as which IPython compiles such lines
        raise InvalidJob(f"{name}: found a line for IPython, such as !pip or %time, expected Python; packages belong "
                         "into the image")
    if missing:
        raise InvalidJob(f"{name}: found {', '.join(missing)} of the module around it, expected imports and "
                         "definitions inside the function, or arguments")


def _globals(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """The global names that a scope and those inside it use, and those that they define."""
    used, defined = set(), set()
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if top or symbol.is_global():
            if symbol.is_referenced():
                used.add(symbol.get_name())
            if symbol.is_assigned() or symbol.is_imported():
                defined.add(symbol.get_name())
    for child in table.get_children():
        inner_used, inner_defined = _globals(child)
        used |= inner_used
        defined |= inner_defined
    return used, defined


def _json(function: Callable[..., object], args: Mapping[str, object]) -> str:
    name = function.__name__
    try:
        inspect.signature(function).bind(**args)
    except TypeError as error:
        raise InvalidJob(f"{name}: found arguments that do not fit {name}{inspect.signature(function)}: "
                         f"{error}") from error
    for key, value in args.items():
        if not _survives(value):
            raise InvalidJob(f"{name}: found {value!r} for the argument {key}, expected what JSON holds as it is: "
                             "texts, numbers, booleans, None, lists, and mappings with texts as keys")
    return json.dumps(args, ensure_ascii=False)


def _survives(value: Any) -> bool:
    """Whether JSON gives the same back. It would make a tuple a list, and a key that is a number a text."""
    if isinstance(value, dict):
        return all(type(key) is str and _survives(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(_survives, value))
    return value is None or type(value) in (str, bool, int, float)
