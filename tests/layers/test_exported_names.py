"""A ``.pt2`` file's description may name operators and sizes, and nothing that runs code."""

from __future__ import annotations

import json

import pytest

from edgebench.layers.exported_names import (
    ForbiddenNameError,
    check_containers,
    check_description,
    check_expression,
    check_operator,
)

HERE = "models/model.json"


def container(kind: str | None, context: object, *children: object) -> dict[str, object]:
    """A container of inputs, as PyTorch describes it."""
    return {"type": kind, "context": context, "children_spec": list(children)}


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s77', positive=True, integer=True)",
        "Mul(Integer(2), Symbol('s53', positive=True, integer=True))",
        "Add(Integer(-1), Pow(Symbol('s0', integer=True), Integer(2)))",
        "Pow(Symbol('s0'), Rational(1, 2))",
        "Float('0.5', precision=53)",
        "FloorDiv(s0 + 3, 2)",
        "Max(1, s0) <= 64",
        "2*s0**2 - 1",
    ],
)
def test_expressions_of_sizes_are_allowed(text: str) -> None:
    """As this PyTorch and older ones write them."""
    check_expression(text, HERE)


@pytest.mark.promise("Reading a `.pt2` file runs no code that it contains.")
@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__.__base__.__subclasses__()",
        "s0.__class__",
        "exec('x')",
        "Symbol('s0', **{})",
        "Symbol(__import__('os'))",
        "Symbol('__import__')",
        "Integer('__import__')",
        "Add(*s0)",
        "[s0 for s0 in (1,)]",
        "(lambda: s0)()",
        "Symbol",
        "'s0'",
        "s0 if s0 else s0",
        "9**9**9",
        "(((s0**16)**16)**16)",
        "Pow(Integer(9), Integer(999999999))",
        "Pow(2, s0)",
        "LShift(1, 999999999)",
        "1e999999999",
        "floor(1e300)",
        "Float('0.1', precision=999999999)",
        "1j",
        "factorial(99999999)",
        "99999999!",
        "s0\x00",
        "(" * 5000 + "s0" + ")" * 5000,
        "-" * 9000 + "s0",
        "+".join(["s0"] * 2000),
    ],
)
def test_expressions_that_run_code_or_fill_the_memory_are_refused(text: str) -> None:
    """PyTorch evaluates them with sympify, which is Python's eval."""
    with pytest.raises(ForbiddenNameError, match="expression"):
        check_expression(text, HERE)


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.aten.conv2d.default",
        "torch.ops.aten._softmax.default",
        "torch.ops.aten.__and__.Scalar",
        "torch.ops.torchvision.nms.default",
        "torch.ops.quantized_decomposed.quantize_per_tensor.default",
        "torch.ops.higher_order.cond",
        "_operator.mul",
        "torch.sym_max",
        "math.trunc",
    ],
)
def test_operators_of_networks_are_allowed(target: str) -> None:
    """Those of PyTorch, torchvision and quantised exports; arithmetic on sizes."""
    check_operator(target, HERE)


@pytest.mark.promise("Reading a `.pt2` file runs no code that it contains.")
@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.save.default",
        "torch.ops.aten._print.default",
        "torch.ops.image.read_file.default",
        "torch.ops.higher_order.triton_kernel_wrapper_functional",
        "torch.ops.aten.__class__.mro",
        "torch.ops.aten.add.__call__",
        "torch.ops.load_library",
        "torch.load",
        "torch.hub.load",
        "torch.os.system",
        "_operator.attrgetter",
        "_operator.methodcaller",
        "_operator_.add",
        "math.factorial",
        "#extension:target",
        "builtins.eval",
        "torch.ops.aten.add.Tensor\n",
        "",
    ],
)
def test_other_functions_are_refused(target: str) -> None:
    """PyTorch would look them up by name and call them."""
    with pytest.raises(ForbiddenNameError, match="no operator of a network"):
        check_operator(target, HERE)


def test_containers_of_inputs_are_allowed() -> None:
    """Tuples, and tables with names."""
    leaf = container(None, None)
    tree = container("builtins.tuple", "null", container("builtins.dict", '["a", "b.0"]', leaf))
    check_containers(json.dumps([1, tree]), HERE)


@pytest.mark.promise("Reading a `.pt2` file runs no code that it contains.")
@pytest.mark.parametrize(
    "tree",
    [
        container(
            "collections.defaultdict",
            {"default_factory_module": "os", "default_factory_name": "abort", "dict_context": []},
        ),
        container("builtins.dict", '[{"__enum__": true, "fqn": "antigravity:x", "name": "y"}]'),
        container("builtins.dict", '{"__enum__": true, "fqn": "antigravity:x", "name": "y"}'),
        container("builtins.tuple", "null", container("collections.defaultdict", {})),
        container("builtins.dict", json.dumps(['"+__import__("os")+"'])),
        container("package.Own", "null"),
    ],
)
def test_containers_that_import_modules_are_refused(tree: object) -> None:
    """Also inside others."""
    with pytest.raises(ForbiddenNameError):
        check_containers(json.dumps([1, tree]), HERE)


@pytest.mark.promise("Reading a `.pt2` file runs no code that it contains.")
@pytest.mark.parametrize(
    "part",
    [
        {"nodes": [{"name": "a = 1\nimport os"}]},
        {"nodes": [{"name": "a.b"}]},
        {"nodes": [{"metadata": {"nn_module_stack": 'L__self__,a"] + f(),torch.nn.Linear'}}]},
        {"signature": {"parameter_name": 'a", __import__("os")) #'}},
        {"guards_code": ["L['x'].__class__"]},
        {"guards_code": ["__import__('os').system('true')"]},
        {"range_constraints": {"u99999999999": {"min_val": 1}}},
        {"nodes": [{"unheard_of": "print('x')"}]},
        {"nodes": [{"f('x')": 1}]},
        {"nodes": [{"arg": {"as_operator": "torch.load"}}]},
        {"nodes": [{"arg": {"as_graph": {"graph": {"nodes": [{"target": "torch.load"}]}}}}]},
        {"graph": {"sym_int_values": {"a": {"as_expr": {"expr_str": "exit()"}}}}},
    ],
)
def test_texts_in_other_places_are_plain_names(part: object) -> None:
    """Generated code has names in it, so they can't be code; at any depth."""
    with pytest.raises(ForbiddenNameError):
        list(check_description(part, HERE))


def test_conditions_on_inputs_are_allowed() -> None:
    """They compare sizes with numbers."""
    text = "L['x'].size()[0] <= 64 and L['args'][0].stride()[1] + 1 == 2"
    assert list(check_description({"guards_code": [text]}, HERE)) == []
