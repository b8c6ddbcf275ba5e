"""The type stubs name what the package has, with the same parameters."""

import ast
import inspect
import pathlib

import scalebricks

STUBS = pathlib.Path(scalebricks.__file__).with_name("__init__.pyi")


def parameters(function):
    """Names and whether each has a default, in order, of a function in the stubs."""
    args = function.args
    names = [arg.arg for arg in args.posonlyargs + args.args if arg.arg != "self"]
    defaults = [False] * (len(names) - len(args.defaults)) + [True] * len(args.defaults)
    keywords = [(arg.arg, default is not None) for arg, default in zip(args.kwonlyargs, args.kw_defaults)]
    return [*zip(names, defaults), *keywords]


def real_parameters(function):
    found = inspect.signature(function).parameters.values()
    return [(one.name, one.default is not one.empty) for one in found if one.name != "self"]


def test_stubs_are_what_the_package_has():
    tree = ast.parse(STUBS.read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {*classes, *functions, "__version__"} == set(scalebricks.__all__)
    for name, function in functions.items():
        assert parameters(function) == real_parameters(getattr(scalebricks, name)), name
    for name, node in classes.items():
        real = getattr(scalebricks, name)
        methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
        public = {one for one in vars(real) if not one.startswith("_")} if not issubclass(real, Exception) else set()
        assert {one for one in methods if not one.startswith("_")} == public, name
        for method, stub in methods.items():
            if any(isinstance(mark, ast.Name) and mark.id == "property" for mark in stub.decorator_list):
                assert inspect.isgetsetdescriptor(vars(real)[method]), (name, method)
            elif method == "__init__":
                assert parameters(stub) == real_parameters(real), name
            elif not method.startswith("__"):
                assert parameters(stub) == real_parameters(getattr(real, method)), (name, method)
    assert STUBS.with_name("py.typed").exists()


def test_everything_is_documented():
    for name in scalebricks.__all__:
        if name == "__version__":
            continue
        real = getattr(scalebricks, name)
        assert real.__doc__, name
        for method, value in vars(real).items() if isinstance(real, type) else ():
            assert method.startswith("_") or value.__doc__, (name, method)
