# SPDX-License-Identifier: Apache-2.0
"""What the functions of programs mean, in NumPy (docs/language.md, docs/semantics.md). Tests only; see codetta_reference.

run_program() runs a program file under CPython: parameters are bound to values, the symbols of their types become
integers, and the functions here stand beside those of the epilogue language.
"""
import ast
import builtins
import contextlib
import functools
import inspect
import operator

import numpy as np

import codetta_reference as r
from codetta_reference import LanguageError, Value

PROGRAM = [  # in the order of src/frontend/functions.def
    "matmul", "transpose", "concat", "squeeze", "unsqueeze", "expand", "full", "zeros", "ones", "arange", "take",
    "embedding", "gather", "index_put", "scatter", "softmax", "log_softmax", "layer_norm", "rms_norm", "rope", "cond",
    "while_loop", "call_extern", "user_kernel", "to_device",
]
EXTERN = {}  # what call_extern and user_kernel stand for: name -> function of Values that gives a list of Values


def _dims(dim):
    return (dim,) if isinstance(dim, builtins.int) else tuple(dim)


def _size(size):
    """A size as an integer; one that a value says is 0 or more, where those of the text may count from the end."""
    if not isinstance(size, Value):
        return builtins.int(size)
    number = operator.index(size)
    if number < 0 and not size.literal:
        raise LanguageError(f"the size {number} is negative")
    return number


def _integer(x):
    """Of a value without dims, as NumPy's."""
    if isinstance(x, r.Index) or x.shape != () or r.is_float(x.dtype) or x.dtype == "bool":
        raise LanguageError(f"{x!r} is no single integer")
    return builtins.int(x.array)


Value.__index__ = _integer


def _sizes(sizes):
    """m, n or (m, n)."""
    flat = []
    for size in sizes:
        flat += list(size) if isinstance(size, (tuple, list)) else [size]
    return tuple(_size(s) for s in flat)


def _item(x, items):
    """x[...]: as NumPy, but bounds are never clamped, steps are positive, and what is computed counts from the front."""
    items = items if isinstance(items, tuple) else (items,)
    named = [i for i in items if i is not None and i is not Ellipsis]
    at, sizes = 0, x.shape
    items = tuple(slice(*(None if b is None else _size(b) for b in (i.start, i.stop, i.step)))
                  if isinstance(i, slice) else i for i in items)
    for item in items:
        if item is None:
            continue
        if item is Ellipsis:
            at += len(sizes) - len(named)
            continue
        if isinstance(item, slice):
            if item.step is not None and item.step < 1:
                raise LanguageError("a slice runs forward")
            bounds = [b + sizes[at] if b < 0 else b for b in (item.start, item.stop) if b is not None]
            if any(not 0 <= b <= sizes[at] for b in bounds) or (len(bounds) == 2 and bounds[0] > bounds[1]):
                raise LanguageError(f"slice {item} leaves a dim of size {sizes[at]}")
        elif isinstance(item, Value) and not item.literal and not 0 <= operator.index(item) < sizes[at]:
            raise LanguageError(f"an index is out of range for the size {sizes[at]}")
        at += 1
    items = tuple(operator.index(i) if isinstance(i, Value) else i for i in items)
    return x.laid_out(x.array[items])


Value.__getitem__ = _item
Value.__matmul__ = lambda x, y: matmul(x, y)


def matmul(a, b):
    """The product over the last two dims; leading dims broadcast."""
    return r.accumulate(a, b)


def transpose(x, dim0=-2, dim1=-1):
    x = r._lift(x)
    return x.laid_out(np.swapaxes(x.array, dim0, dim1))


def concat(*parts, dim=0):
    return r.join(*parts, dim=dim)


def squeeze(x, dim):
    x = r._lift(x)
    return x.laid_out(np.squeeze(x.array, axis=_dims(dim)))


def unsqueeze(x, dim):
    x = r._lift(x)
    return x.laid_out(np.expand_dims(x.array, _dims(dim)))


def expand(x, *sizes):
    sizes, x = _sizes(sizes), r._lift(x)
    old = (None,) * (len(sizes) - x.array.ndim) + x.shape
    return x.laid_out(np.broadcast_to(x.array, [o if s == -1 else s for s, o in zip(sizes, old)]))


def full(value, *sizes, dtype=None):
    if sizes and isinstance(sizes[-1], str):
        sizes, dtype = sizes[:-1], sizes[-1]
    return expand(value if dtype is None else r.cast(value, dtype), *sizes)


def zeros(*sizes, dtype="f32"):
    if sizes and isinstance(sizes[-1], str):
        sizes, dtype = sizes[:-1], sizes[-1]
    return full(0.0, *sizes, dtype=dtype)


def ones(*sizes, dtype="f32"):
    if sizes and isinstance(sizes[-1], str):
        sizes, dtype = sizes[:-1], sizes[-1]
    return full(1.0, *sizes, dtype=dtype)


def arange(n):
    return Value(np.arange(_size(n), dtype=np.int64), "i64")


def _indices(x, indices, dim):
    indices = r._lift(indices).array.astype(np.int64)
    if indices.size and not (0 <= indices.min() and indices.max() < x.shape[dim]):
        raise LanguageError(f"an index is out of range for the size {x.shape[dim]}")
    return indices


def take(x, indices, dim=0):
    return x.laid_out(np.take(x.array, _indices(x, indices, dim), axis=dim))


def embedding(table, ids):
    return take(table, ids, dim=0)


def gather(x, indices, dim=0):
    dim %= x.array.ndim
    at = list(np.indices(r._lift(indices).shape))
    at[dim] = _indices(x, indices, dim)
    return x.laid_out(x.array[tuple(at)])


def _put(x, places, values, reduce):
    """x with values in places (one index array a dim, of the values' shape); of equal places the last one counts."""
    values = r._lift(values)
    if x.weak:  # numbers take the type of what is put among them
        x = Value(r._as(x, values.dtype), values.dtype, values.weak, literal=False)
    out = np.array(x.array, np.float64 if r.is_float(x.dtype) else x.array.dtype)
    values = np.broadcast_to(r._as(values, x.dtype), places[0].shape)
    with np.errstate(all="ignore"):
        if reduce == "sum":
            np.add.at(out, places, values)
        elif reduce in ("max", "min"):
            (np.maximum if reduce == "max" else np.minimum).at(out, places, values)
        else:
            for at in np.ndindex(values.shape):
                out[tuple(p[at] for p in places)] = values[at]
    return r._cast(x.dtype, Value(out, x.dtype)) if r.is_float(x.dtype) and reduce == "sum" else x.laid_out(out)


def index_put(x, indices, values, dim=0, accumulate=False):
    dim %= x.array.ndim
    indices = _indices(x, indices, dim)
    space = np.indices(x.shape[:dim] + indices.shape + x.shape[dim + 1:])
    inside = range(dim, dim + indices.ndim)
    places = [space[d] for d in range(len(space)) if d not in inside]
    places.insert(dim, np.broadcast_to(indices[tuple(space[d] for d in inside)], space.shape[1:]))  # of one index one number
    return _put(x, tuple(places), values, "sum" if accumulate else "none")


def scatter(x, indices, values, dim=0, reduce="none"):
    dim %= x.array.ndim
    places = list(np.indices(r._lift(indices).shape))
    places[dim] = _indices(x, indices, dim)
    return _put(x, tuple(places), values, reduce)


def softmax(x, dim=-1):
    e = r.exp(x - r.max(x, dim=dim))
    return e / r.sum(e, dim=dim)


def log_softmax(x, dim=-1):
    return x - r.logsumexp(x, dim=dim)


def _scaled(x, weight, eps):
    y = x * r.rsqrt(r.mean(x * x, dim=-1) + eps)
    return y if weight is None else y * weight


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    y = _scaled(x - r.mean(x, dim=-1), weight, eps)
    return y if bias is None else y + bias


def rms_norm(x, weight=None, eps=1e-6):
    return _scaled(x, weight, eps)


def rope(x, cos, sin, interleave=False):
    a, b = (x[..., 0::2], x[..., 1::2]) if interleave else r.split(x, 2, dim=-1)
    return r.join(a * cos - b * sin, b * cos + a * sin, dim=-1, interleave=interleave)


def _carried(x, wanted=None):
    """A value with a type. Literals take the wanted one, unless they are floats and it is none."""
    x = r._lift(x)
    if not x.weak:
        return x
    takes = wanted not in (None, "bool") and (r.is_float(wanted) or not r.is_float(x.dtype))
    dtype = wanted if takes else r._needed(x)
    return Value(r._as(x, dtype), dtype)


def _several(results):
    return results if isinstance(results, tuple) else (results,)


def _strong(x):
    """The dtype of a result that is no literal."""
    x = r._lift(x)
    return None if x.weak else x.dtype


def cond(predicate, then, otherwise, *values):
    values = [_carried(v) for v in values]
    taken, other = (then, otherwise) if predicate.array.reshape(()) else (otherwise, then)
    results = _several(taken(*values))
    # Literals take the types of the other branch, which only running it tells.
    untyped = builtins.any(r._lift(x).weak for x in results)
    wanted = [_strong(x) for x in _several(other(*values))] if untyped else [None] * len(results)
    results = tuple(_carried(x, dtype) for x, dtype in zip(results, wanted))
    return results if len(results) > 1 else results[0]


def while_loop(condition, body, *values):
    values = tuple(_carried(v) for v in values)
    while r._lift(condition(*values)).array.reshape(()):
        values = tuple(_carried(x, v.dtype) for x, v in zip(_several(body(*values)), values))
    return values if len(values) > 1 else values[0]


def call_extern(symbol, *values, out, form="out"):
    results = EXTERN[symbol](*values)
    return tuple(results) if len(results) > 1 else results[0]


def user_kernel(name, *values, out):
    return call_extern(name, *values, out=out)


def to_device(x, device):
    """Where a value lies changes nothing of what it is."""
    if not 0 <= device < 64:
        raise LanguageError(f"there is no device {device}")
    return x


def device(number):
    """with device(1): what is computed there is what it is anywhere."""
    to_device(None, number)
    return contextlib.nullcontext()


def _type(annotation):
    """(element type, sizes as texts) of f32["n", 4] and f32[()]; None of other annotations. Numbers have no brackets."""
    if isinstance(annotation, ast.Name) and annotation.id in r.DTYPES:
        return annotation.id, ()
    if not isinstance(annotation, ast.Subscript):
        return None
    if annotation.value.id == "donated":
        return _type(annotation.slice)
    sizes = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    return annotation.value.id, tuple(s.value if isinstance(s, ast.Constant) else ast.unparse(s) for s in sizes)


def _named_sizes(name, types, values, around):
    """What the sizes are that the types of a function's parameters name, by what is passed; checks the types."""
    own, dims = {}, []
    for parameter, (dtype, sizes) in types.items():
        value = r._lift(values[parameter])
        if len(sizes) != len(value.shape) or (dtype != value.dtype and not value.weak):
            raise LanguageError(f"{parameter} of {name} is {value!r}, declared {dtype}{list(sizes)}")
        dims += [(str(s), n) for s, n in zip(sizes, value.shape)]
    unknown = {d: {n.id for n in ast.walk(ast.parse(d)) if isinstance(n, ast.Name)} - {"min", "max"} for d, _ in dims}
    for dim, size in dims:  # those that are a name alone go first
        if unknown[dim] == {dim}:
            own.setdefault(dim, size)
    for _ in dims:
        for dim, size in dims:
            left = [n for n in unknown[dim] if n not in own]
            if len(left) == 1:
                rest, one, two = (_evaluated(dim, {**own, left[0]: n}) for n in (0, 1, 2))
                if one > rest and two - one == one - rest and (size - rest) % (one - rest) == 0 and size >= rest:
                    own[left[0]] = (size - rest) // (one - rest)
    for dim, size in dims:
        if _evaluated(dim, {**around, **own}) != size:
            raise LanguageError(f"a size of {name} is {size}, declared {dim}")
    return own


def _called(function, types):
    """A function of a text as other functions call it: sizes that its types name are its own, and of what it calls."""
    signature, names = inspect.signature(function), function.__globals__

    @functools.wraps(function)
    def call(*values, **named):
        own = _named_sizes(function.__name__, types, signature.bind(*values, **named).arguments, names)
        before = {n: names[n] for n in own if n in names}
        names.update(own)
        try:
            return function(*values, **named)
        finally:
            for n in own:
                del names[n]
            names.update(before)
    return call


def load_program(text, sizes, name=None):
    """Runs a text with the names of the language and of sizes as globals: (function, its parameters' names, outputs)."""
    scope = {n: getattr(r, n) for n in r.LANGUAGE} | r.CONSTANTS | {n: globals()[n] for n in PROGRAM}
    scope.update({d: d for d in r.DTYPES})
    scope.update(r.ARITHMETIC)
    scope["device"] = device
    tree = r.Numbers().visit(ast.parse(text))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    chosen = [f for f in functions if f.name == name] if name else functions[-1:]
    if not chosen:
        raise LanguageError("the text defines no such function")
    types = {f.name: {a.arg: _type(a.annotation) for a in f.args.args if _type(a.annotation)} for f in functions}
    for function in functions:  # types say nothing to CPython
        for argument in function.args.args:
            argument.annotation = None
    scope.update(sizes)
    exec(compile(tree, "<program>", "exec"), scope)
    for name, own in types.items():
        if own and name != chosen[0].name:
            scope[name] = _called(scope[name], own)
    last = [s for s in ast.walk(chosen[0]) if isinstance(s, ast.Return)][-1].value
    names = [n.id for n in (last.elts if isinstance(last, ast.Tuple) else [last])]
    return scope[chosen[0].name], names


def _evaluated(size, sizes):
    """A size that a text names, such as "n // 8", and in tuples of reshape."""
    if not isinstance(size, str):
        return size
    least_and_most = {"min": builtins.min, "max": builtins.max}
    return eval(size, {"__builtins__": {}}, {**sizes, **least_and_most})


def run_program(text, operands, sizes=None, name=None):
    """{output name: Value}. operands: Values by parameter name; sizes: the value of each symbol."""
    sizes = dict(sizes or {})
    function, names = load_program(text, sizes, name)
    reshape = function.__globals__["reshape"]
    function.__globals__["reshape"] = lambda x, new_shape: reshape(
        x, tuple(_size(_evaluated(s, function.__globals__))
                 for s in (new_shape if isinstance(new_shape, tuple) else (new_shape,))))
    results = function(**operands)
    results = results if isinstance(results, tuple) else (results,)
    return dict(zip(names, results))
