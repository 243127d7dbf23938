# SPDX-License-Identifier: Apache-2.0
"""What every function of the epilogue language means, in NumPy (docs/language.md, docs/semantics.md). Tests only.

An epilogue file runs under CPython with these names as its globals: run_epilogue() does that. Floating values are computed
in float64, so results are exact to about 1e-15; integers are computed, and wrap, in their own type. Compute types follow
the language's rules; with rounding("each_op") every result is rounded to its compute type, and with
rounding("as_unfused") to the promoted type of its operands, as separate kernels would do.
"""
import ast
import builtins
import contextlib
import math

import numpy as np

from codetta_dtypes import DTYPES, INTS, convert, is_float, numpy_dtype, round_float

LANGUAGE = [  # the names that an epilogue sees, besides the dtype names
    "relu", "gelu", "silu", "sigmoid", "tanh", "erf", "exp", "exp2", "log", "log2", "log1p", "expm1", "sqrt", "rsqrt",
    "reciprocal", "abs", "sign", "floor", "ceil", "round", "trunc", "sin", "cos", "pow", "minimum", "maximum", "clamp",
    "where", "softplus", "elu", "leaky_relu", "hardswish", "hardsigmoid", "hardtanh", "relu6", "mish", "cast", "dropout",
    "dgelu", "drelu", "dsilu", "dtanh", "dsigmoid", "multiply_add", "identity", "row_index", "col_index", "batch_index",
    "sum", "max", "min", "mean", "amax", "sum_of_squares", "logsumexp", "split", "join", "permute", "reshape",
]
CONSTANTS = {"inf": math.inf, "nan": math.nan}
__all__ = LANGUAGE + list(CONSTANTS) + DTYPES

_mode = "none"      # "none", "each_op" or "as_unfused"
_space = (1, 1)     # [batch,] M, N of the accumulator of the epilogue that runs


class LanguageError(TypeError):
    """The text is not valid Codetta, although CPython can run it."""


@contextlib.contextmanager
def rounding(mode):
    """Emulates rounding of intermediate results: "none", "each_op" or "as_unfused"."""
    global _mode
    if mode not in ("none", "each_op", "as_unfused"):
        raise ValueError(mode)
    saved, _mode = _mode, mode
    try:
        yield
    finally:
        _mode = saved


# Values ---------------------------------------------------------------------------------------------------------------


class Value:
    """A typed array. `weak` marks literals and what is computed from literals only. One that a layout or a reduction gave is
    no literal itself: what it holds counts for no type, and a boolean is typed then."""

    __array_ufunc__ = None  # NumPy arrays must not take part in arithmetic by themselves
    __hash__ = None

    literal = False

    def __init__(self, array, dtype, weak=False, literal=None):
        self.array, self.dtype = np.asarray(array), dtype
        self.literal = weak if literal is None else weak and literal
        self.weak = weak and (self.literal or dtype != "bool")

    @property
    def shape(self):
        return self.array.shape

    def laid_out(self, array):
        """The same elements in another form: nothing is rounded, and literals stay what they are."""
        return Value(array, self.dtype, self.weak, literal=False)

    def __bool__(self):
        raise LanguageError("a value has no single truth; use where(), & | ~")

    def __iter__(self):
        raise LanguageError("a value can't be unpacked; use split()")

    def __repr__(self):
        return f"{self.dtype}{list(self.shape)}"

    __neg__ = lambda x: _arith("neg", x)
    __pos__ = lambda x: x
    __invert__ = lambda x: _logical("not", x)


class Index(Value):
    """row_index() and the like, and what is computed from them, until it meets a value that fixes its extent."""

    def __init__(self, needs, make):
        self.needs, self.make, self.weak = needs, make, False  # needs: dims counted from the end, 1 = columns

    def at(self, shape):
        return self.make(tuple(shape))

    @property
    def array(self):
        return self.at(_space).array

    @property
    def dtype(self):
        return self.at(_space).dtype


def _lift(x):
    if isinstance(x, Value):
        return x
    if isinstance(x, (builtins.bool, np.bool_)):
        return Value(np.array(builtins.bool(x)), "bool", weak=True)
    if isinstance(x, builtins.int):
        return Value(np.array(x, np.int64 if -2**63 <= x < 2**63 else object), "i64", weak=True)
    if isinstance(x, builtins.float):
        return Value(np.array(x, np.float64), "f64", weak=True)
    raise LanguageError(f"{x!r} is not a value")


def _fitting(x):
    """Integers of more than 64 bits stand between literals only, as in 2**64 - 1. From 2**63 on they are u64."""
    if x.array.dtype == object and 2**63 <= x.array < 2**64:
        return Value(x.array.astype(np.uint64), "u64")
    if x.array.dtype == object:
        raise LanguageError(f"the integer {x.array} needs more than 64 bits")
    return x


def _elementwise(function):
    """Resolves Index operands: materialized once the other operands fix the extents they need, deferred until then."""
    def run(name, *operands):
        operands = [_lift(x) for x in operands]
        if not _any_index(operands):
            if not _literals(operands):
                operands = [_fitting(x) for x in operands]
            return function(name, *operands)
        operands = [x if isinstance(x, Index) else _fitting(x) for x in operands]
        shape = np.broadcast_shapes(*[x.shape for x in operands if not isinstance(x, Index)])
        extents = (1,) * (3 - len(shape)) + tuple(shape)
        needed = {a for x in operands if isinstance(x, Index) for a in x.needs}
        if builtins.all(extents[-a] > 1 for a in needed):
            return function(name, *[x.at(shape) if isinstance(x, Index) else x for x in operands])
        def make(space):
            full = np.broadcast_shapes(shape, space)
            return function(name, *[x.at(full) if isinstance(x, Index) else x for x in operands])
        return Index(needed, make)
    return run


def _any_index(values):
    return builtins.any(isinstance(x, Index) for x in values)


def _index(axis):
    def make(shape):
        extents = (1,) * (3 - len(shape)) + tuple(shape)
        counting = np.arange(extents[-axis], dtype=np.int64)
        rank = len(shape)  # where there is no batch dim, the one batch index is 0
        return Value(counting.reshape([extents[-axis] if rank - i == axis else 1 for i in range(rank)]), "i64")
    return Index({axis}, make)


# Types ----------------------------------------------------------------------------------------------------------------


def compute_dtype(dtype):
    """What a loaded value computes in: 8- and 16-bit floats widen to f32."""
    return "f32" if is_float(dtype) and dtype != "f64" else dtype


def join_dtypes(a, b):
    """The type that an operation over both computes in."""
    a, b = compute_dtype(a), compute_dtype(b)
    if a == b or b == "bool":
        return a
    if a == "bool":
        return b
    if is_float(a) or is_float(b):
        return "f64" if "f64" in (a, b) else "f32"
    if {a, b} & {"u64"} and (a[0] == "i" or b[0] == "i"):
        return "i64"
    return str(np.promote_types(INTS[a], INTS[b])).replace("uint", "u").replace("int", "i")


def _holds(dtype, literal):
    """Whether a weak literal can adopt `dtype`."""
    if literal.dtype == "bool":
        return True
    if is_float(literal.dtype):
        return is_float(dtype)
    if is_float(dtype):
        return True
    if dtype == "bool":
        return False
    if not literal.literal:
        return True
    info = np.iinfo(INTS[dtype])
    return info.min <= builtins.int(np.min(literal.array)) and builtins.int(np.max(literal.array)) <= info.max


def _needed(literal):
    """What a literal joins as where it can't adopt the other type."""
    if literal.dtype != "i64":
        return "f32" if is_float(literal.dtype) else literal.dtype
    return "i32" if _holds("i32", literal) else "i64"


def _joined(values):
    """The dtype of an operation over lifted values, before the op's own rule, and whether the result is weak. Literals
    alone are computed in i64 and f64."""
    strong = [v for v in values if not v.weak]
    weak = [v for v in values if v.weak]
    if not strong:
        dtype = weak[0].dtype
        for v in weak[1:]:
            dtype = join_dtypes(dtype, v.dtype)
        return dtype, True
    dtype = compute_dtype(strong[0].dtype)
    for v in strong[1:]:
        dtype = join_dtypes(dtype, v.dtype)
    for v in weak:
        if not _holds(dtype, v):
            dtype = join_dtypes(dtype, _needed(v))
    return dtype, False


def _unfused_dtype(values):
    """as_unfused: the promoted type of float operands, 16-bit ones kept (bf16 with f16 is f32)."""
    floats = {v.dtype for v in values if is_float(v.dtype) and not v.weak}
    if len(floats) == 1:
        return floats.pop()
    return "f64" if "f64" in floats else "f32"


def _literals(values):
    return builtins.all(v.literal for v in values)


def _result(array, dtype, operands, weak=False):
    if is_float(dtype):
        array = np.asarray(array, np.float64)
        if _mode == "each_op":
            array = round_float(array, dtype)
        elif _mode == "as_unfused" and not weak:
            dtype = _unfused_dtype(operands) if any(is_float(v.dtype) for v in operands) else dtype
            array = round_float(array, dtype)
    return Value(array, dtype, weak, _literals(operands))


def _as(value, dtype):
    """An operand in the type that the operation computes in. Literals round to it; other floats are held unrounded."""
    if value.array.dtype == object:
        return value.array.astype(np.float64) if dtype == "f64" else value.array
    if is_float(value.dtype) and is_float(dtype) and not value.weak:
        return value.array
    return convert(value.array, value.dtype, dtype)


# Arithmetic -----------------------------------------------------------------------------------------------------------


# Zeros and ones have the type of what they stand beside: a u64 without dims and a Python integer would become a float.
def _floordiv(x, y):
    return np.where(y == 0, x.dtype.type(0), np.floor_divide(x, np.where(y == 0, y.dtype.type(1), y)))


def _mod(x, y):
    if x.dtype.kind == "f":
        return np.mod(x, y)
    return np.where(y == 0, x.dtype.type(0), np.mod(x, np.where(y == 0, y.dtype.type(1), y)))


def _minimum(x, y):
    return np.where(x == y, np.where(np.signbit(x), x, y), np.minimum(x, y)) if x.dtype.kind == "f" else np.minimum(x, y)


def _maximum(x, y):
    return np.where(x == y, np.where(np.signbit(x), y, x), np.maximum(x, y)) if x.dtype.kind == "f" else np.maximum(x, y)


def _power(x, y):
    power = np.power(x, y)
    if x.dtype.kind != "f":
        return power
    # NumPy takes a square root for it, which differs from pow at these two.
    return np.where((y == 0.5) & (np.isneginf(x) | (x == 0)), np.abs(x), power)


def _sign(x):
    return np.where(x > 0, 1, np.where(x < 0, -1, np.where(x == 0, 0, x))).astype(x.dtype)


def _integral(function):
    return lambda x: function(x) if x.dtype.kind == "f" else x


_ARITH = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "//": _floordiv, "%": _mod, "**": _power,
    "neg": np.negative, "multiply_add": lambda x, y, z: x * y + z, "minimum": _minimum, "maximum": _maximum,
    "clamp": lambda x, low, high: _minimum(_maximum(x, low), high), "abs": np.abs, "sign": _sign,
    "floor": _integral(np.floor), "ceil": _integral(np.ceil), "round": _integral(np.rint), "trunc": _integral(np.trunc),
    "relu": lambda x: np.where((x > 0) | (x != x), x, x.dtype.type(0)),
    "drelu": lambda x: (x > 0).astype(x.dtype),
}


def _exact_power(x, y):
    if builtins.abs(x) > 1 and y > 126:
        raise LanguageError(f"{x}**{y} needs more than 64 bits")
    return x ** y if builtins.abs(x) > 1 else x ** (y and 2 - y % 2)


_EXACT = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "//": lambda x, y: x // y if y else 0,
    "%": lambda x, y: x % y if y else 0, "**": _exact_power, "neg": lambda x: -x, "multiply_add": lambda x, y, z: x * y + z,
    "minimum": builtins.min, "maximum": builtins.max, "clamp": lambda x, low, high: builtins.min(builtins.max(x, low), high),
    "abs": builtins.abs, "sign": lambda x: (x > 0) - (x < 0), "relu": lambda x: builtins.max(x, 0),
    "drelu": lambda x: builtins.int(x > 0),
} | dict.fromkeys(("floor", "ceil", "round", "trunc"), lambda x: x)


@_elementwise
def _arith(name, *values):
    dtype, weak = _joined(values)
    if dtype == "bool":
        dtype = "i64" if weak else "i32"
    if name == "**" and not is_float(dtype):
        exponent = values[1]
        if not exponent.weak or exponent.dtype == "bool" or exponent.array < 0:
            raise LanguageError("an integer power needs a non-negative integer literal as exponent; cast to a float")
    with np.errstate(all="ignore"):
        if weak and _literals(values) and not is_float(dtype):  # exactly, as in Python
            exact = _EXACT[name](*[builtins.int(v.array) for v in values])
            if not -2**125 <= exact <= 2**125:
                raise LanguageError(f"{exact} needs more than 64 bits, and more than stands between literals")
            return _lift(exact)
        arrays = [_as(v, dtype) for v in values]
        if name == "//" and is_float(dtype):  # of the rounded quotient
            return _result(np.floor(round_float(np.divide(*arrays), dtype)), dtype, values, weak)
        return _result(_ARITH[name](*arrays), dtype, values, weak)


_COMPARE = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal,
            "!=": np.not_equal}


@_elementwise
def _compare(name, *values):
    dtype, weak = _joined(values)
    if any(v.array.dtype == object for v in values) and not is_float(dtype):
        return Value(np.array(_COMPARE[name](*[builtins.int(v.array) for v in values])), "bool", weak, True)
    return Value(_COMPARE[name](*[_as(v, dtype) for v in values]), "bool", weak, _literals(values))


_LOGICAL = {"&": np.logical_and, "|": np.logical_or, "^": np.logical_xor, "not": np.logical_not}


@_elementwise
def _logical(name, *values):
    if any(v.dtype != "bool" for v in values):
        raise LanguageError(f"{name} takes booleans; compare first")
    return Value(_LOGICAL[name](*[v.array for v in values]), "bool", _literals(values))


def _install_operators():
    for kind, table in ((_arith, ["+", "-", "*", "//", "%", "**"]), (_compare, list(_COMPARE)), (_logical, ["&", "|", "^"])):
        for symbol in table:
            name = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod", "**": "pow", "<": "lt", "<=": "le",
                    ">": "gt", ">=": "ge", "==": "eq", "!=": "ne", "&": "and", "|": "or", "^": "xor"}[symbol]
            setattr(Value, f"__{name}__", lambda x, y, kind=kind, symbol=symbol: kind(symbol, x, y))
            setattr(Value, f"__r{name}__", lambda x, y, kind=kind, symbol=symbol: kind(symbol, y, x))
    Value.__truediv__ = lambda x, y: _real("/", x, y)
    Value.__rtruediv__ = lambda x, y: _real("/", y, x)


# Real functions -------------------------------------------------------------------------------------------------------

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])
_SQRT_HALF, _SQRT_2_PI = math.sqrt(0.5), math.sqrt(2 / math.pi)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _relu6(x):
    return _minimum(_maximum(x, np.float64(0)), np.float64(6))


def _softplus(x, beta, threshold):
    return np.where(beta * x > threshold, x, np.logaddexp(0, beta * x) / beta)


def _half_and_tail(x):
    """(1 + erf(x / sqrt(2))) / 2, without cancellation where that is small."""
    return 0.5 * _erfc(-x * _SQRT_HALF)


def _tanh_argument(x):
    return _SQRT_2_PI * (x + 0.044715 * x * x * x)


def _dgelu_tanh(x):
    u = _tanh_argument(x)  # (1 + tanh(u)) / 2 is sigmoid(2 u)
    s = _dsigmoid(2 * u)
    slope = 2 * x * s * _SQRT_2_PI * (1 + 3 * 0.044715 * x * x)
    return _sigmoid(2 * u) + np.where((s == 0) & np.isfinite(x), 0, slope)


def _dsigmoid(x):
    return _sigmoid(x) * _sigmoid(-x)


_REAL = {
    "/": np.divide, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log1p": np.log1p,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "erf": _erf, "sigmoid": _sigmoid, "silu": lambda x: x * _sigmoid(x),
    "gelu_erf": lambda x: x * _half_and_tail(x), "gelu_tanh": lambda x: x * _sigmoid(2 * _tanh_argument(x)), "softplus": _softplus,
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    "leaky_relu": lambda x, slope: np.where(x > 0, x, slope * x), "hardswish": lambda x: x * _relu6(x + 3) / 6,
    "hardsigmoid": lambda x: _relu6(x + 3) / 6, "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "dsigmoid": _dsigmoid, "dtanh": lambda x: 4 * _dsigmoid(2 * x), "dsilu": lambda x: _sigmoid(x) * (1 + x * _sigmoid(-x)),
    "dgelu_erf": lambda x: _half_and_tail(x) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi), "dgelu_tanh": _dgelu_tanh,
}


@_elementwise
def _real(name, *values):
    dtype, weak = _joined(values)
    if not is_float(dtype):
        dtype = "f64" if weak else "f32"
    if name != "/":
        values = [_fitting(v) for v in values]
    with np.errstate(all="ignore"):
        result = _result(_REAL[name](*[_as(v, dtype) for v in values]), dtype, values, weak)
    return result if name == "/" else result.laid_out(result.array)  # the compiler takes no function of a literal


def _gelu_form(name, approximate):
    if approximate not in ("none", "tanh"):
        raise LanguageError('approximate is "none" or "tanh"')
    return name + ("_erf" if approximate == "none" else "_tanh")


# The functions of the language ----------------------------------------------------------------------------------------


def exp(x): return _real("exp", x)                    # e to the x
def exp2(x): return _real("exp2", x)                  # 2 to the x
def expm1(x): return _real("expm1", x)                # exp(x) - 1, accurate near 0
def log(x): return _real("log", x)                    # natural logarithm; log(0) = -inf, NaN below 0
def log2(x): return _real("log2", x)                  # logarithm to base 2
def log1p(x): return _real("log1p", x)                # log(1 + x), accurate near 0
def sqrt(x): return _real("sqrt", x)                  # square root; sqrt(-0.0) = -0.0
def rsqrt(x): return _real("rsqrt", x)                # 1 / sqrt(x)
def reciprocal(x): return _real("reciprocal", x)      # 1 / x
def sin(x): return _real("sin", x)                    # sine of radians
def cos(x): return _real("cos", x)                    # cosine of radians
def tanh(x): return _real("tanh", x)                  # hyperbolic tangent
def erf(x): return _real("erf", x)                    # error function
def sigmoid(x): return _real("sigmoid", x)            # 1 / (1 + exp(-x))
def silu(x): return _real("silu", x)                  # x * sigmoid(x)
def hardswish(x): return _real("hardswish", x)        # x * clamp(x + 3, 0, 6) / 6
def hardsigmoid(x): return _real("hardsigmoid", x)    # clamp(x + 3, 0, 6) / 6
def mish(x): return _real("mish", x)                  # x * tanh(log1p(exp(x)))
def dsigmoid(x): return _real("dsigmoid", x)          # derivative of sigmoid at x
def dtanh(x): return _real("dtanh", x)                # derivative of tanh at x
def dsilu(x): return _real("dsilu", x)                # derivative of silu at x
def relu(x): return _arith("relu", x)                 # maximum(x, 0); relu(-0.0) = +0.0; NaN stays
def drelu(x): return _arith("drelu", x)               # 1 where x > 0, else 0
def abs(x): return _arith("abs", x)                   # |x|; the most negative integer wraps to itself
def sign(x): return _arith("sign", x)                 # -1, 0 or 1; NaN stays
def floor(x): return _arith("floor", x)               # largest integer not above x; type kept
def ceil(x): return _arith("ceil", x)                 # smallest integer not below x
def round(x): return _arith("round", x)               # nearest integer, ties to even
def trunc(x): return _arith("trunc", x)               # integer part
def pow(x, y): return _arith("**", x, y)              # x ** y
def minimum(x, y): return _arith("minimum", x, y)     # the smaller; NaN if either is NaN
def maximum(x, y): return _arith("maximum", x, y)     # the larger; NaN if either is NaN
def multiply_add(x, y, z): return _arith("multiply_add", x, y, z)  # x * y + z
def relu6(x): return clamp(x, 0, 6)                   # clamp(x, 0, 6)
def hardtanh(x, min_val=-1.0, max_val=1.0): return clamp(x, min_val, max_val)  # clamp to [min_val, max_val]
def elu(x, alpha=1.0): return _real("elu", x, alpha)  # x where x > 0, else alpha * expm1(x)
def leaky_relu(x, negative_slope=0.01): return _real("leaky_relu", x, negative_slope)  # x where x > 0, else slope * x
def softplus(x, beta=1.0, threshold=20.0): return _real("softplus", x, beta, threshold)  # log1p(exp(beta x)) / beta
def gelu(x, approximate="none"): return _real(_gelu_form("gelu", approximate), x)        # x * Phi(x)
def dgelu(x, approximate="none"): return _real(_gelu_form("dgelu", approximate), x)      # derivative of gelu at x
def row_index(): return _index(2)                     # the row of the element, i64
def col_index(): return _index(1)                     # the column of the element, i64
def batch_index(): return _index(3)                   # the batch item of the element, i64; 0 when not batched
def identity(x): return _lift(x)                      # x


def clamp(x, min=None, max=None):
    """minimum(maximum(x, min), max); NaN propagates; either bound may be left out."""
    if min is None and max is None:
        raise LanguageError("clamp needs min, max or both")
    if min is None:
        return minimum(x, max)
    return maximum(x, min) if max is None else _arith("clamp", x, min, max)


@_elementwise
def _select(name, condition, x, y):
    if condition.dtype != "bool":
        raise LanguageError("where: the condition must be a boolean; compare first")
    dtype, weak = _joined([x, y])
    if weak and not condition.weak and dtype != "bool":
        dtype = "f32" if is_float(dtype) else "i32" if builtins.all(_needed(v) != "i64" for v in (x, y)) else "i64"
    if object in (x.array.dtype, y.array.dtype) and not is_float(dtype):
        return x if condition.array else y
    return _result(np.where(condition.array, _as(x, dtype), _as(y, dtype)), dtype, [x, y], weak and condition.weak)


def where(condition, x, y):
    """x where the condition holds, else y."""
    return _select("where", condition, x, y)


@_elementwise
def _cast(name, x):
    return Value(convert(_fitting(x).array, x.dtype, name), name)


def cast(x, dtype):
    """x converted: to a float rounds to nearest even, float to integer truncates and saturates, integer narrowing wraps."""
    if dtype not in DTYPES:
        raise LanguageError(f"{dtype!r} is not a dtype")
    return _cast(dtype, x)


def philox4x32(counter, key, rounds=10):
    """Philox4x32 (Salmon et al., SC 2011): counter 4 words and key 2 words of u32, arrays or ints; returns 4 u32 arrays."""
    mask = np.uint64(0xFFFFFFFF)
    c = [np.asarray(w, np.uint64) for w in counter]
    k0, k1 = builtins.int(key[0]), builtins.int(key[1])
    for _ in range(rounds):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & mask, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [w.astype(np.uint32) for w in c]


def dropout(x, p, seed):
    """0 with probability p, else x / (1 - p). Four elements of [batch, M, N] that follow each other share a Philox block, keyed by seed."""
    x, p, seed = (_fitting(_lift(v)) for v in (x, p, seed))
    if is_float(seed.dtype) or seed.array.size != 1 or p.array.size != 1:
        raise LanguageError("dropout: p is a number and seed an integer")
    if p.weak and not 0 <= p.array <= 1:
        raise LanguageError("dropout: a literal p is 0 to 1")
    dtype = "f64" if x.dtype == "f64" and not x.weak else "f32"
    array = _as(x, dtype)
    with contextlib.suppress(ValueError):  # a split value keeps its own space
        array = np.broadcast_to(array, np.broadcast_shapes(array.shape, _space))
    index = np.arange(array.size, dtype=np.uint64).reshape(array.shape)
    bits = builtins.int(seed.array.reshape(())) & 0xFFFFFFFFFFFFFFFF
    block = index >> np.uint64(2)
    words = philox4x32([block & np.uint64(0xFFFFFFFF), block >> np.uint64(32), 0, 0], [bits & 0xFFFFFFFF, bits >> 32])
    word = np.choose((index & np.uint64(3)).astype(np.int64), words)
    uniform = (word >> np.uint32(8)).astype(np.float64) * 2.0**-24
    probability = builtins.float(np.float32(p.array.reshape(())))
    with np.errstate(all="ignore"):
        scale = np.divide(1.0, 1.0 - probability)
        return _result(np.where(uniform >= probability, array * scale, 0.0), dtype, [x])


# Reductions -----------------------------------------------------------------------------------------------------------


def _axes(x, dim, axis):
    if dim is not None and axis is not None:
        raise LanguageError("give dim= or axis=, not both")
    rank = x.array.ndim
    if dim is not None:
        dims = [dim] if isinstance(dim, builtins.int) else list(dim)
        if any(not -rank <= d < rank for d in dims) or len({d % rank for d in dims}) != len(dims) or not dims:
            raise LanguageError(f"dim={dim} does not name distinct dims of a value of rank {rank}")
        return tuple(d % rank for d in dims)
    if axis not in (None, "all", "row", "column"):
        raise LanguageError('axis is "row", "column" or "all"')
    return tuple(range(rank)) if axis in (None, "all") else ((rank - 1,) if axis == "row" else (rank - 2,))


def _identity_of(name, dtype):
    if name in ("sum", "sum_of_squares", "amax", "mean"):
        return 0
    if is_float(dtype):
        return np.inf if name == "min" else -np.inf
    info = np.iinfo(INTS[dtype])
    return info.max if name == "min" else info.min


def _logsumexp(x, axes):
    top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    return np.log(np.sum(np.exp(x - shift), axis=axes, keepdims=True)) + shift


def _reduce(name, x, dim, axis, keepdim=True):
    x = _whole(x)
    dtype = compute_dtype(x.dtype)
    if dtype == "bool":
        dtype = "i32"
    if name in ("mean", "logsumexp") and not is_float(dtype):
        dtype = "f64" if x.weak else "f32"
    array = _as(x, dtype)
    if array.ndim < (2 if axis == "column" else 1):
        raise LanguageError(f"{axis or 'this'} reduction needs a value with more dims than {array.ndim}")
    axes = _axes(x, dim, axis)
    start = _identity_of(name, dtype)
    with np.errstate(all="ignore"):
        if name == "logsumexp":
            out = _logsumexp(array, axes)
        elif name in ("max", "amax"):
            out = np.max(np.abs(array) if name == "amax" else array, axis=axes, keepdims=True, initial=start)
        elif name == "min":
            out = np.min(array, axis=axes, keepdims=True, initial=start)
        else:
            array = array * array if name == "sum_of_squares" else array
            out = np.add.reduce(array, axis=axes, keepdims=True, dtype=array.dtype)
            if name == "mean":
                out = out / np.float64(np.prod([array.shape[a] for a in axes]))
    if not keepdim:
        out = np.squeeze(out, axis=axes)
    result = _result(out, dtype, [x], x.weak and x.dtype != "bool")
    return result.laid_out(result.array)


def sum(x, dim=None, axis=None, keepdim=True): return _reduce("sum", x, dim, axis, keepdim)     # 0 over nothing
def max(x, *, dim=None, axis=None, keepdim=True): return _reduce("max", x, dim, axis, keepdim)  # NaN propagates
def min(x, *, dim=None, axis=None, keepdim=True): return _reduce("min", x, dim, axis, keepdim)  # NaN propagates
def mean(x, dim=None, axis=None, keepdim=True): return _reduce("mean", x, dim, axis, keepdim)   # NaN over nothing
def amax(x, dim=None, axis=None, keepdim=True): return _reduce("amax", x, dim, axis, keepdim)   # largest |x|
def sum_of_squares(x, dim=None, axis=None, keepdim=True): return _reduce("sum_of_squares", x, dim, axis, keepdim)
def logsumexp(x, dim=None, axis=None, keepdim=True): return _reduce("logsumexp", x, dim, axis, keepdim)


# Layout ---------------------------------------------------------------------------------------------------------------


def _whole(x):
    """A lifted value; an Index takes the accumulator's space."""
    x = _lift(x)
    if not isinstance(x, Index):
        return x
    x = x.at(_space)
    return Value(np.broadcast_to(x.array, np.broadcast_shapes(x.shape, _space)), x.dtype)


def split(x, n, dim=-1):
    """n equal parts along a dim, for tuple assignment."""
    x = _whole(x)
    if x.shape[dim] % n != 0:
        raise LanguageError(f"split: {x.shape[dim]} is not divisible by {n}")
    return tuple(x.laid_out(part) for part in np.split(x.array, n, axis=dim))


def join(*parts, dim=-1, interleave=False):
    """Parts put together along a dim: one after the other, or element by element with interleave=True."""
    parts = [_whole(p) for p in parts]
    alike = builtins.all((p.dtype, p.weak) == (parts[0].dtype, parts[0].weak) for p in parts)
    dtype = parts[0].dtype if alike else _joined(parts)[0]
    arrays, weak = [_as(p, dtype) for p in parts], builtins.all(p.weak for p in parts)
    if not interleave:
        return Value(np.concatenate(arrays, axis=dim), dtype, weak, literal=False)
    axis = dim % arrays[0].ndim
    shape = list(arrays[0].shape)
    shape[axis] *= len(arrays)
    return Value(np.stack(arrays, axis=axis + 1).reshape(shape), dtype, weak, literal=False)


def permute(x, indices):
    """Dims reordered: dim i of the result is dim indices[i] of x."""
    x = _whole(x)
    return x.laid_out(np.transpose(x.array, indices))


def reshape(x, new_shape):
    """Row-major reinterpretation; one size may be -1."""
    x = _whole(x)
    return x.laid_out(np.reshape(x.array, new_shape))


_install_operators()


# Running an epilogue --------------------------------------------------------------------------------------------------


def bind(array, dtype):
    """A tensor or scalar operand whose values are rounded to `dtype` first."""
    array = np.asarray(array)
    source = dtype if array.dtype.kind in "iub" and not is_float(dtype) else "f64"
    native = array.astype(np.float64) if source == "f64" else array.astype(numpy_dtype(dtype))
    return Value(convert(native, source, dtype, "nearest"), dtype)


def accumulate(a, b):
    """A times B in the accumulator's type: i32 for 8-bit integers, i64 where one is wider, f64 where one is f64, else f32
    (not rounded here)."""
    if is_float(a.dtype) != is_float(b.dtype):
        raise LanguageError("A and B are both floats or both integers")
    if not is_float(a.dtype):
        accumulator = "i32" if a.dtype in ("i8", "u8") and b.dtype in ("i8", "u8") else "i64"
        product = np.matmul(a.array.astype(np.int64), b.array.astype(np.int64))
        return Value(product.astype(INTS[accumulator]), accumulator)
    return Value(np.matmul(a.array, b.array), "f64" if "f64" in (a.dtype, b.dtype) else "f32")


def store(value, dtype, shape=None):
    """What an output of `dtype` receives: one rounding; a float stored to an integer rounds to nearest even and saturates."""
    value = _whole(value)
    out = convert(value.array, value.dtype, dtype, "nearest")
    if shape is None:
        return out
    if out.size == np.prod(shape) and tuple(s for s in out.shape if s != 1) == tuple(s for s in shape if s != 1):
        return out.reshape(shape)
    return np.broadcast_to(out, shape)


def _number(result):
    """A result as Python's number again where it is one of literals alone: it may be a size or an index."""
    return result.array.item() if result.literal else result


def _is_number(x):
    return isinstance(x, (builtins.int, builtins.float))  # bool is an int


def _binary(symbol, x, y):
    """x symbol y, where numbers are those of the language: x // 0 = 0."""
    return _number((_real if symbol == "/" else _logical if symbol in _LOGICAL else _arith)(symbol, x, y))


def _negative(x):
    return _number(_arith("neg", x)) if _is_number(x) else -x


def _inverted(x):
    return _number(_logical("not", x))


ARITHMETIC = {"_binary": _binary, "_negative": _negative, "_inverted": _inverted}


class Numbers(ast.NodeTransformer):
    """Has arithmetic and logic done by _binary, _negative and _inverted: Python has other integers, other divisions by 0,
    and takes booleans for numbers."""

    SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
               ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}

    def call(self, node, name, *arguments):
        call = ast.Call(ast.Name(name, ast.Load()), list(arguments), [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def visit_BinOp(self, node):
        self.generic_visit(node)
        symbol = self.SYMBOLS.get(type(node.op))
        return self.call(node, "_binary", ast.Constant(symbol), node.left, node.right) if symbol else node

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return node  # a literal with its sign
        self.generic_visit(node)
        name = {ast.USub: "_negative", ast.Invert: "_inverted"}.get(type(node.op))
        return self.call(node, name, node.operand) if name else node


def load_epilogue(text, name=None):
    """Runs a text with the language's names as globals: (function, names of its outputs in order)."""
    scope = {n: globals()[n] for n in LANGUAGE} | CONSTANTS | ARITHMETIC
    scope.update({d: d for d in DTYPES})
    tree = Numbers().visit(ast.parse(text))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    chosen = [f for f in functions if f.name == name] if name else functions[-1:]
    if not chosen:
        raise LanguageError("the text defines no function" if name is None else f"the text defines no {name}")
    exec(compile(tree, "<epilogue>", "exec"), scope)
    last = [s for s in ast.walk(chosen[0]) if isinstance(s, ast.Return)][-1].value
    names = [n.id for n in (last.elts if isinstance(last, ast.Tuple) else [last])]
    return scope[chosen[0].name], names


def run_epilogue(text, accum, operands, name=None):
    """Runs an epilogue under CPython: {output name: Value}. accum and operands are Values (see bind)."""
    global _space
    function, names = load_epilogue(text, name)
    saved, _space = _space, accum.shape
    try:
        results = function(accum, **operands)
        results = results if isinstance(results, tuple) else (results,)
        return {n: _whole(v) for n, v in zip(names, results)}
    finally:
        _space = saved


globals().update(CONSTANTS)
for _dtype in DTYPES:  # `from codetta_reference import *` gives the dtype names too
    globals()[_dtype] = _dtype
