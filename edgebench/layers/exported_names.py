"""What the description in a ``.pt2`` file may name: operators, symbolic sizes, nested inputs.

PyTorch looks operators up by name, evaluates expressions with ``sympy.sympify``, which is Python's
``eval``, imports modules that a tree of inputs names, and writes names into generated code. So each
text in a description must have the form that its place needs; a place that is not listed takes a
plain name. Nothing here imports torch.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator
from typing import Any

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
#: Names of modules and weights: words with dots; a part may be a number, or empty.
_NAME = re.compile(r"[A-Za-z0-9_.@-]{0,500}")
_IDENTIFIER = re.compile(rf"({_WORD})?")
_SYMBOL = re.compile(r"[a-z]{1,3}[0-9]{1,5}")
#: Modules' and functions' names as PyTorch records them, to tell where a node comes from.
_ORIGIN = re.compile(r"[A-Za-z0-9_.,;@<>\[\]() -]*")
_ORIGINS = ("nn_module_stack", "source_fn_stack", "torch_fn")

#: Where a node comes from, as text that nothing evaluates.
_NOTES = ("stack_trace", "custom", "from_node")

_ATEN = re.compile(
    r"torch\.ops\.(aten|quantized_decomposed)"
    r"\.([A-Za-z][A-Za-z0-9_]*|_[A-Za-z][A-Za-z0-9_]*|__i?(?:and|or|xor|lshift|rshift)__)"
    r"\.[A-Za-z][A-Za-z0-9_]*"
)
#: Operators that open files, or write to the terminal.
_REFUSED_OPERATORS = ("from_file", "save", "_print", "warn")
_TORCHVISION = re.compile(
    r"torch\.ops\.torchvision\.(nms|roi_align|roi_pool|ps_roi_align|ps_roi_pool|deform_conv2d)"
    r"\.default"
)
#: Operators whose arguments are graphs of the same description.
_OF_GRAPHS = re.compile(
    r"torch\.ops\.higher_order\.(cond|while_loop|map_impl|scan|associative_scan"
    r"|wrap_with_set_grad_enabled|wrap_with_autocast)"
)
_OF_NUMBERS = re.compile(
    r"_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|lshift"
    r"|rshift|getitem)"
    r"|math\.(trunc|ceil|floor|sqrt)"
    r"|torch\.(_sym_sqrt|sym_(float|int|ite|max|min|not|sum))"
)

#: Functions of symbolic sizes, as sympy and PyTorch call them.
_FUNCTION = re.compile(
    r"Add|Mul|Max|Min|Mod|Abs|Integer|Rational|Eq|Ne|Ge|Gt|Le|Lt|Equality|Unequality|"
    r"GreaterThan|StrictGreaterThan|LessThan|StrictLessThan|And|Or|Not|floor|ceiling|"
    r"FloorDiv|ModularIndexing|Where|PythonMod|CleanDiv|CeilToInt|FloorToInt|CeilDiv|"
    r"FloatTrueDiv|IntTrueDiv|IsNonOverlappingAndDenseIndicator|TruncToFloat|"
    r"TruncToInt|RoundToInt|ToFloat|Identity"
)
_POWERS = frozenset(("Pow", "PowByNatural", "FloatPow", "LShift", "RShift"))
_CONSTANTS = frozenset(("true", "false", "oo", "int_oo"))
_OPERATORS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
    *(ast.BitAnd, ast.BitOr, ast.Invert, ast.UAdd, ast.USub, ast.Not, ast.And, ast.Or),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)
_MOST_EXPRESSION, _MOST_PARTS = 10_000, 1_000
_MOST_POWER, _MOST_DIGITS, _MOST_NUMBER = 16, 128, 1e30
_REAL = re.compile(r"-?[0-9]{1,40}(\.[0-9]{0,60})?(e[+-]?[0-9]{1,2})?")
#: A size of an input, in the conditions of an export.
_INPUT_SIZE = re.compile(
    rf"\bL(\['{_WORD}'\]|\[[0-9]+\])+(\.(size|stride)\(\)\[[0-9]+\]|\.storage_offset\(\))?"
)

#: Containers of inputs and outputs. Others are made by importing what the file names.
_CONTAINERS = (
    *("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict", "torch.Size"),
    *(f"torch.fx.immutable_collections.immutable_{kind}" for kind in ("list", "dict")),
)
_KEY = re.compile(r"[A-Za-z0-9_./: -]{1,200}")


class ForbiddenNameError(Exception):
    """A description names what it may not: what it is, and where."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what)
        self.what = what
        self.where = where


def check_description(value: Any, where: str) -> Iterator[str]:
    """The operators that a description names, after a check of every text in it.

    Args:
        value: the description, as JSON gives it.
        where: the member of the file, for messages.

    Raises:
        ForbiddenNameError: a text has no form that its place needs.
    """
    return _texts(value, "", where)


def _texts(value: Any, key: str, where: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            if key == "range_constraints":
                _need(_SYMBOL.fullmatch(name), "a symbol", name, where)
            _need(_NAME.fullmatch(name), "a name", name, where)
            yield from _texts(part, name, f"{where}: {name}" if not key else where)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, key, where)
    elif isinstance(value, str):
        if key in ("target", "as_operator"):
            check_operator(value, where)
            yield value
        else:
            _check_text(value, key, where)


def _check_text(text: str, key: str, where: str) -> None:
    if key == "expr_str":
        check_expression(text, where)
    elif key == "guards_code":
        check_expression(_INPUT_SIZE.sub("s0", text), where)
    elif key in ("in_spec", "out_spec"):
        check_containers(text, where)
    elif key in _ORIGINS:
        _need(_ORIGIN.fullmatch(text), "the origin of a node", text, where)
    elif key == "as_string" or key == "as_strings":
        _need(text.isprintable(), "printable text", text, where)
    elif key in ("name", "as_name", "forward_arg_names"):
        _need(_IDENTIFIER.fullmatch(text), "an identifier", text, where)
    elif key == "torch_version":
        _need(re.fullmatch(r"[0-9A-Za-z.+<=]{0,60}", text), "a version", text, where)
    elif key not in _NOTES:
        _need(_NAME.fullmatch(text), "a name", text, where)


def check_operator(target: str, where: str) -> None:
    """Check the name of an operator.

    Raises:
        ForbiddenNameError: it is no operator that a network needs.
    """
    found = _ATEN.fullmatch(target)
    known = found and found[2] not in _REFUSED_OPERATORS
    if not known and not any(
        kind.fullmatch(target) for kind in (_TORCHVISION, _OF_GRAPHS, _OF_NUMBERS)
    ):
        raise ForbiddenNameError(
            f"it calls {_shown(target)}, which is no operator of a network", where
        )


def check_expression(text: str, where: str) -> None:
    """Check an expression of symbolic sizes.

    Raises:
        ForbiddenNameError: it is more than arithmetic and listed functions on numbers and
            symbols, or its powers or its length could take the machine's memory.
    """
    try:
        _need(text.isascii() and len(text) <= _MOST_EXPRESSION, "an expression", text, where)
        tree = ast.parse(text.strip(), mode="eval")
        _need(sum(1 for _ in ast.walk(tree)) <= _MOST_PARTS, "an expression", text, where)
        correct = _is_size(tree.body, powers=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        correct = False
    _need(correct, "an expression of sizes", text, where)


def _is_size(node: ast.expr, powers: bool) -> bool:
    """Whether it is arithmetic on sizes; ``powers``: whether a power may be in it."""
    if isinstance(node, ast.Constant):
        return _is_number(node.value)
    if isinstance(node, ast.Name):
        return bool(_SYMBOL.fullmatch(node.id)) or node.id in _CONSTANTS
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, _OPERATORS) and _is_size(node.operand, powers)
    if isinstance(node, ast.BoolOp):
        return all(_is_size(part, powers) for part in node.values)
    if isinstance(node, ast.Compare):
        operators = all(isinstance(one, _OPERATORS) for one in node.ops)
        return operators and all(_is_size(one, powers) for one in (node.left, *node.comparators))
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Pow):
            return powers and _is_power(node.left, node.right)
        parts = all(_is_size(one, powers) for one in (node.left, node.right))
        return isinstance(node.op, _OPERATORS) and parts
    return isinstance(node, ast.Call) and _is_call(node, powers)


def _is_call(node: ast.Call, powers: bool) -> bool:
    if not isinstance(node.func, ast.Name):
        return False
    called = node.func.id
    if called in ("Symbol", "Float"):
        return len(node.args) == 1 and _is_leaf(called, node)
    if node.keywords:
        return False
    if called in _POWERS:
        return powers and len(node.args) == 2 and _is_power(*node.args)
    return bool(_FUNCTION.fullmatch(called)) and all(_is_size(one, powers) for one in node.args)


def _is_leaf(called: str, node: ast.Call) -> bool:
    """``Symbol('s0', integer=True)`` or ``Float('0.5', precision=53)``."""
    (given,) = node.args
    if not isinstance(given, ast.Constant):
        return False
    for keyword in node.keywords:
        value = keyword.value
        if keyword.arg is None or not isinstance(value, ast.Constant):
            return False
        if type(value.value) is not bool and not (
            called == "Float" and type(value.value) is int and 0 < value.value <= _MOST_DIGITS
        ):
            return False
    if isinstance(given.value, str):
        form = _SYMBOL if called == "Symbol" else _REAL
        return bool(form.fullmatch(given.value))
    return called == "Float" and _is_number(given.value)


def _is_power(base: ast.expr, exponent: ast.expr) -> bool:
    """A small constant power of what has no power in it."""
    try:
        value = ast.literal_eval(exponent)
    except ValueError:
        # sympy writes Integer(2), Integer(-1) or Rational(1, 2).
        if not isinstance(exponent, ast.Call) or not isinstance(exponent.func, ast.Name):
            return False
        if exponent.func.id not in ("Integer", "Rational") or exponent.keywords:
            return False
        return bool(exponent.args) and all(_is_power(base, one) for one in exponent.args)
    small = type(value) in (int, float) and abs(value) <= _MOST_POWER
    return small and _is_size(base, powers=False)


def _is_number(value: Any) -> bool:
    if type(value) not in (int, float, bool):
        return False
    return math.isfinite(value) and abs(value) <= _MOST_NUMBER


def check_containers(text: str, where: str) -> None:
    """Check the description of nested inputs or outputs.

    Raises:
        ForbiddenNameError: it has a container that is made by importing what the file names.
    """
    try:
        version, tree = json.loads(text)
        _check_container(tree, where)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ForbiddenNameError(f"{_shown(text)} describes no inputs or outputs", where) from error
    _need(version == 1, "a description of inputs or outputs", text, where)


def _check_container(tree: dict[str, Any], where: str) -> None:
    kind, context = tree["type"], tree["context"]
    if kind is not None and kind not in _CONTAINERS:
        raise ForbiddenNameError(f"an input or output is in a container {_shown(str(kind))}", where)
    keys = json.loads(context) if isinstance(context, str) else context
    for key in [] if keys is None else keys:
        known = type(key) is int or (isinstance(key, str) and _KEY.fullmatch(key))
        _need(isinstance(keys, list) and known, "a key of an input or output", str(key), where)
    for child in tree["children_spec"]:
        _check_container(child, where)


def _need(correct: object, what: str, text: str, where: str) -> None:
    if not correct:
        raise ForbiddenNameError(f"{_shown(text)} is not {what}", where)


def _shown(text: str) -> str:
    """A text as Python writes it, cut short."""
    return ascii(text if len(text) <= 80 else text[:77] + "...")
