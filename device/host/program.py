# SPDX-License-Identifier: Apache-2.0
"""What emitted Python host modules begin with: memory, views, checks and host work over numpy, kernels through ctypes.

Element types that numpy lacks travel as unsigned integers of their size: bf16 as uint16, f8e4m3 and f8e5m2 as uint8.
"""
import base64
import ctypes
import math
import numbers
import os
import threading

import numpy as np

_DTYPES = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
           np.uint8, np.uint8, np.float16, np.uint16, np.float32, np.float64]
_NAMES = ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"]
_last = threading.local()
_ZEROS = np.zeros(16, np.uint8)


class HostError(Exception):
    """A call that could not be done; its text is what get_last_error() returns. unaligned: only for how tensors lie, of
    which another program may rely on less."""

    def __init__(self, text, unaligned=False):
        super().__init__(text)
        self.unaligned = unaligned


def get_last_error():
    """Text of this thread's last failing call; "" where there was none."""
    return getattr(_last, "text", "")


def get_output_shapes():
    """What this thread's last call that succeeded has filled of each output whose sizes it computes: shapes by name."""
    return dict(getattr(_last, "shapes", {}))


# ---- the engine, as device/host/engine.h describes it

class _GemmConfig(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint8) for name in ("family", "isa", "a_dtype", "b_dtype", "accumulator")] + [
        ("pack_a", ctypes.c_bool)] + [
        (name, ctypes.c_int32) for name in ("mr", "nr", "tile_rows", "tile_cols", "kc", "mc", "nc", "k_split")]


class _MapConfig(ctypes.Structure):
    _fields_ = [("isa", ctypes.c_uint8), ("tile_rows", ctypes.c_int32), ("tile_cols", ctypes.c_int32)]


class _FactorB(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("batch", ctypes.c_int64), ("k", ctypes.c_int64), ("col", ctypes.c_int64),
                ("skip", ctypes.c_int64)]


class _Maker(ctypes.Structure):
    _fields_ = [("tiles", ctypes.c_void_p), ("operands", ctypes.c_void_p), ("scalars", ctypes.c_void_p),
                ("operand_count", ctypes.c_int32), ("output", ctypes.c_int32), ("transposed", ctypes.c_bool)]


class _Gemm(ctypes.Structure):
    _fields_ = [("batch", ctypes.c_int64), ("m", ctypes.c_int64), ("n", ctypes.c_int64), ("k", ctypes.c_int64),
                ("a", ctypes.c_void_p), ("a_batch", ctypes.c_int64), ("a_row", ctypes.c_int64), ("a_k", ctypes.c_int64),
                ("b", ctypes.c_void_p), ("b_batch", ctypes.c_int64), ("b_k", ctypes.c_int64), ("b_col", ctypes.c_int64),
                ("inner", ctypes.c_int64), ("a_skip", ctypes.c_int64), ("b_skip", ctypes.c_int64),
                ("packed_b", ctypes.c_void_p), ("split_ways", ctypes.c_int32), ("split_chunk", ctypes.c_int64),
                ("products", ctypes.c_int32), ("more_b", _FactorB * 7), ("makers", ctypes.c_void_p)]


class _Phase(ctypes.Structure):
    _fields_ = [("scope", ctypes.c_uint8), ("space", ctypes.c_uint8), ("accumulators", ctypes.c_bool)]


class _Reduction(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint8), ("axis", ctypes.c_uint8), ("dtype", ctypes.c_uint8), ("mean", ctypes.c_bool),
                ("phase", ctypes.c_int32), ("parts", ctypes.c_int32), ("of_nothing", ctypes.c_bool)]


class _Operand(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("stride", ctypes.c_int64 * 8)]


class _Scalar(ctypes.Union):
    _fields_ = [("f", ctypes.c_float), ("d", ctypes.c_double), ("i", ctypes.c_int64), ("u", ctypes.c_uint64)]


class _Epilogue(ctypes.Structure):
    _fields_ = [("tiles", ctypes.c_void_p), ("fused", ctypes.c_void_p), ("operands", ctypes.c_void_p),
                ("scalars", ctypes.c_void_p), ("phases", ctypes.c_void_p), ("reductions", ctypes.c_void_p),
                ("phase_count", ctypes.c_int32), ("reduction_count", ctypes.c_int32), ("out", ctypes.c_void_p),
                ("out_batch", ctypes.c_int64), ("out_row", ctypes.c_int64), ("folds", ctypes.c_int32)]


class _Given(ctypes.Structure):
    """A tensor of codetta/extern.h."""
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.c_int64 * 8), ("strides", ctypes.c_int64 * 8),
                ("rank", ctypes.c_int32), ("dtype", ctypes.c_int32), ("device", ctypes.c_int32),
                ("reserved", ctypes.c_int32), ("release", ctypes.c_void_p), ("owner", ctypes.c_void_p)]


class _Extent(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("element_bytes", ctypes.c_int64), ("rank", ctypes.c_int32),
                ("sizes", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64))]


_INTERFACE = 6  # host_interface of device/host/engine.h


def _library(path):
    """The engine's library, where it is what this module calls."""
    lib = ctypes.CDLL(path)
    interface = lib.codetta_host_interface() if hasattr(lib, "codetta_host_interface") else 0
    if interface != _INTERFACE:
        _fail(f"E0508: {path} has interface {interface}, and this module is emitted for {_INTERFACE}: emit it again "
              "with the version that the library is of")
    lib.codetta_host_bytes_of.restype = ctypes.c_int64
    for name, form in list(globals().items()):
        if not isinstance(form, type) or not issubclass(form, (ctypes.Structure, ctypes.Union)):
            continue
        have, want = ctypes.sizeof(form), lib.codetta_host_bytes_of(name[1:].encode())
        if have != want:
            _fail(f"E0508: {path} has {want} bytes for a {name[1:]}, and this module has {have}: emit it again with the "
                  "version that the library is of")
    lib.codetta_host_overlap.restype = lib.codetta_host_overlaps_itself.restype = ctypes.c_bool
    return lib


class _Engine:
    """The engine's library and the functions of the kernels; made once, by init()."""

    def __init__(self, path, kernels, isa):
        self.lib = _library(path)
        self.lib.codetta_host_runs.restype = ctypes.c_bool
        level, name = isa
        if not self.lib.codetta_host_runs(ctypes.c_int32(level)):  # asks the system for the processor's states, too
            _fail(f"E0403: this module is made for {name}, which this processor or system does not offer")
        self.lib.codetta_host_workspace.restype = ctypes.c_int64
        self.lib.codetta_host_map_workspace.restype = ctypes.c_int64
        self.lib.codetta_host_threads_make.restype = ctypes.c_void_p
        self.pool = ctypes.c_void_p(self.lib.codetta_host_threads_make(0))
        self.lock = threading.Lock()  # a pool runs one launch at a time
        self.functions = []
        self.kept = []
        for place, symbol in kernels:
            if not symbol:
                self.functions.append(0)
                continue
            if isinstance(place, bytes):  # a base64 text; the descriptor stays open, so that no path names two libraries
                descriptor = os.memfd_create("codetta", 0)
                with os.fdopen(os.dup(descriptor), "wb") as file:
                    file.write(base64.b64decode(place))
                place = f"/proc/{os.getpid()}/fd/{descriptor}"
            module = ctypes.CDLL(place)
            self.kept.append(module)
            self.functions.append(ctypes.cast(getattr(module, symbol), ctypes.c_void_p).value)


_engine = None
_lock = threading.Lock()


def _loaded(path, kernels, isa):
    global _engine
    with _lock:
        if _engine is None:
            _engine = _Engine(path, kernels, isa)
    return _engine


# ---- memory and views

def _fail(text, unaligned=False):
    raise HostError(text, unaligned)


def _memory(count, alignment):
    """Bytes at a multiple of `alignment`."""
    if count < 0 or count >= 1 << 62:
        _fail(f"E0603: the size of a temporary overflows: {count} bytes")
    try:
        raw = np.empty(count + alignment, np.uint8)
    except MemoryError:
        _fail(f"E0606: {count} bytes could not be allocated")
    begin = -raw.ctypes.data % alignment
    return raw[begin:begin + count]


def _span(dtype, shape, strides):
    if any(size == 0 for size in shape):
        return 0
    return (sum((size - 1) * stride for size, stride in zip(shape, strides)) + 1) * np.dtype(_DTYPES[dtype]).itemsize


def _row_major(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _view(memory, offset, dtype, shape, strides=None, name=""):
    """A view `offset` bytes behind the first element of `memory` (any array); strides count elements."""
    strides = _row_major(shape) if strides is None else strides
    size = np.dtype(_DTYPES[dtype]).itemsize
    need = _span(dtype, shape, strides)
    have = 0 if memory.size == 0 else sum((n - 1) * s for n, s in zip(memory.shape, memory.strides)) + memory.itemsize
    if offset < 0 or min(shape, default=0) < 0 or (need > 0 and offset + need > have):
        _fail(f"E0610: {name} does not fit: it takes {need} bytes from byte {offset} on, and {have} are there")
    if need == 0:
        return np.empty(shape, _DTYPES[dtype])
    if (memory.ctypes.data + offset) % size != 0:
        _fail(f"E0605: {name} is misaligned")
    raw = (ctypes.c_char * need).from_address(memory.ctypes.data + offset)
    return np.ndarray(shape, _DTYPES[dtype], raw, 0, tuple(stride * size for stride in strides))


def _slice(array, begin, shape, name):
    """What lies from an element of `array` on, with its strides."""
    for first, size, whole in zip(begin, shape, array.shape):
        if not 0 <= first <= first + size <= whole:
            _fail(f"E0610: {name} does not fit: it takes {size} elements from {first} on, and {whole} are there")
    return array[tuple(slice(first, first + size) for first, size in zip(begin, shape))]


def _bound(array, name, dtype, rank, written):
    """An argument as the program sees it: exactly `rank` dims, those of size 1 in front may be missing or more. written:
    "output", "donated", or "" for what is only read."""
    if not isinstance(array, np.ndarray):
        _fail(f"E0610: {name} is a {type(array).__name__}, and has to be an array")
    if array.dtype != np.dtype(_DTYPES[dtype]):
        _fail(f"E0610: {name} is {array.dtype}, and {_NAMES[dtype]} has to be passed as {np.dtype(_DTYPES[dtype])}")
    if written and not array.flags.writeable:
        _fail(f"E0213: {written} {name} is bound to read-only memory")
    if any(stride % array.itemsize for stride in array.strides):
        _fail(f"E0605: the strides of {name} are no multiples of its elements")
    if array.size and array.ctypes.data % array.itemsize:
        _fail(f"E0605: {name} is misaligned")
    while array.ndim > rank and array.shape[0] == 1:
        array = np.squeeze(array, 0)
    while array.ndim < rank:
        array = array[np.newaxis]
    if array.ndim != rank:
        _fail(f"E0610: {name} has {array.ndim} dims, and {rank} are wanted")
    return array


def _shaped(array, shape, name):
    if array.shape != tuple(shape):
        _fail(f"E0610: {name} does not fit: it is {list(array.shape)}, and {list(shape)} is wanted")


def _symbol(old, value, divisor, name):
    if divisor == 0 or value % divisor != 0:
        _fail(f"E0610: {name} is no whole number: {value} is divided by {divisor}")
    value //= divisor
    if value < 0:
        _fail(f"E0610: {name} is negative: it is {value}")
    if old is not None and old != value:
        _fail(f"E0610: {name} is {value} here but {old} elsewhere")
    return value


def _divisor(value):
    if value == 0:
        _fail("E0610: a size has no value: it divides by 0")
    return value


def _stride(array, dim):
    return array.strides[dim] // array.itemsize


def _ascending(array, dim, name, others=False):
    """A stride that a kernel takes; others: another program may take the array."""
    stride = _stride(array, dim)
    if stride < 0:
        _fail(f"E0610: the stride of dim {dim} of {name} is negative: it is {stride} elements, and a kernel takes it",
              others)
    return stride


def _pool(pools, index, count, alignment):
    # A turn of a loop may need more than the one in front of it.
    if index not in pools or pools[index].size < count:
        pools[index] = _memory(count, alignment)
    return pools[index]


def _exactly(value):
    """A number as a float that rounds to fewer bits as the number does, which an integer may have more of."""
    if not isinstance(value, numbers.Integral):
        return float(value)
    value = int(value)
    left_out = max(value.bit_length() - 53, 0)
    kept = abs(value) >> left_out
    kept |= kept << left_out != abs(value)  # the last bit says that something is left out
    return math.copysign(math.ldexp(kept, left_out), value)


def _nearest(magnitude, fraction, least):
    """The nearest number with so many bits of fraction, ties to even: (steps, exponent), steps * 2**exponent. Below
    2**least numbers are as far apart as there."""
    exponent = (max(math.frexp(magnitude)[1] - 1, least) if magnitude else least) - fraction
    return round(math.ldexp(magnitude, -exponent)), exponent


def _eight_bits(value, dtype):
    """The bits of a number as f8e4m3 or f8e5m2, and its value then: to nearest even, saturating, infinities too."""
    value = _exactly(value)
    fraction, least, largest = (3, -6, 448.0) if dtype == 9 else (2, -14, 57344.0)
    sign = 0x80 if math.copysign(1, value) < 0 else 0
    if value != value:
        return sign | (0x7F if dtype == 9 else 0x7E), value
    steps, exponent = _nearest(min(abs(value), largest), fraction, least)  # at most 16 steps: carries into the exponent
    return sign | (exponent + fraction - least << fraction) + steps, math.copysign(math.ldexp(steps, exponent), value)


def _scalar(value, dtype):
    """A number of the program's element type, as the engine takes it: rounded once."""
    if dtype <= 8:
        return ("i", int(value))
    if dtype == 14:
        return ("d", float(value))
    if dtype in (9, 10):
        return ("f", _eight_bits(value, dtype)[1])
    value = _exactly(value)
    if dtype == 11:
        value = np.float16(value)
    elif dtype == 12 and math.isfinite(value):
        value = math.copysign(math.ldexp(*_nearest(abs(value), 7, -126)), value)
    return ("f", float(np.float32(value)))


def _fits(value, dtype):
    """Whether a program's number is of its type: nothing is cut off, and what is finite stays so."""
    if dtype == 0 or isinstance(value, (bool, np.bool_)):
        return dtype == 0 and isinstance(value, (bool, np.bool_))
    if dtype <= 8:
        bounds = np.iinfo(_DTYPES[dtype])
        return isinstance(value, numbers.Integral) and bounds.min <= value <= bounds.max
    if not isinstance(value, numbers.Real):
        return False
    try:
        with np.errstate(over="ignore"):
            return math.isfinite(_scalar(value, dtype)[1]) or not math.isfinite(value)
    except OverflowError:
        return False


def _number(value, dtype, name):
    if not _fits(value, dtype):
        _fail(f"E0610: {name} is {value!r:.80}, and has to be " +
              (f"a number of {_NAMES[dtype]}" if dtype else "True or False"))


def _scalar_array(value, dtype):
    if dtype in (9, 10):
        return np.array(_eight_bits(value, dtype)[0], np.uint8)
    if dtype == 12:
        return np.array(int(np.float32(_scalar(value, dtype)[1]).view(np.uint32)) >> 16, np.uint16)
    return np.array(value if dtype <= 8 else _scalar(value, dtype)[1], _DTYPES[dtype])


def _selected(array, name, dtype, shape):
    array = _bound(array, name, dtype, len(shape), "")
    _shaped(array, shape, name)
    return array


def _dim_of(array, dim, name):
    if dim >= array.ndim:
        _fail(f"E0610: {name} has no dim {dim}: it has {array.ndim} dims")
    return dim


# ---- checks

def _equal(left, right, what):
    if left != right:
        _fail(f"E0610: {what}: they are {left} and {right}")


def _divisible(value, divisor, what):
    if divisor == 0 or value % divisor != 0:
        _fail(f"E0610: {what}: they are {value} and {divisor}")


def _in_range(value, least, most, what, why=""):
    if not least <= value <= most:
        wanted = f"{least} or more" if most == 2**63 - 1 else f"{least} to {most}"
        _fail(f"E0610: {what}: it is {value}, and {wanted} is wanted{why and '; ' + why}")


def _has_size(array, dim, size, name):
    if array.shape[dim] != size:
        _fail(f"E0610: {name} has the wrong size: dim {dim} is {array.shape[dim]}, and {size} is wanted")


def _has_stride(array, dim, stride, name, others=False):
    if array.size and array.shape[dim] > 1 and _stride(array, dim) != stride:
        _fail(f"E0610: {name} has the wrong stride: dim {dim} has {_stride(array, dim)}, and {stride} is wanted", others)


def _aligned(array, unit, name, others=False):
    if array.size and (array.ctypes.data % unit or any(
            n > 1 and s % unit for n, s in zip(array.shape[:-1], array.strides[:-1]))):
        _fail(f"E0610: {name} is not aligned to {unit} bytes", others)


def _given(table, name, what):
    if name not in table:
        _fail(f"{what} {name} is not provided")


def _evenly_spaced(*factors, unaligned=True):
    """Arrays and names of what a product reads as it lies: each takes two strides for its leading dims at most, the
    second one after as many items as those of the others."""
    inner = 0
    for array, name in factors:
        if not array.size:
            continue
        items = _items(array)
        if items is None:
            _fail(f"E0610: {name} does not fit: its leading dims are not evenly spaced", unaligned)
        if items[2] and inner not in (0, items[2]):
            _fail(f"E0610: {name} does not fit: {items[2]} of its items lie one way, and {inner} of the other factor",
                  unaligned)
        inner = items[2] or inner


def _one_stride(array, dim, dims, name):
    """Several dims of an array, `dim` from the last the innermost, that a product takes for one."""
    last = array.ndim - dim
    if array.size and _step_of(array, dim, int(np.prod(array.shape[last - dims:last], dtype=np.int64))) is None:
        _fail(f"E0610: {name} does not fit: dims that the product takes for one are not evenly spaced", True)


def _donated(array, unit, name):
    """Memory that the caller gives up is taken over where it lies in one piece and is aligned as what lies there."""
    if array.size and array.ctypes.data % unit:
        _fail(f"E0610: donated {name} can not be reused: its address is {array.ctypes.data % unit} modulo {unit}")
    steps = zip(array.shape, array.strides, _row_major(array.shape))
    if array.size and any(n > 1 and s != step * array.itemsize for n, s, step in steps):
        _fail(f"E0610: donated {name} can not be reused: it lies in pieces")


def _extent(array):
    rank = array.ndim
    sizes, strides = (ctypes.c_int64 * max(rank, 1))(*array.shape), (ctypes.c_int64 * max(rank, 1))(
        *[_stride(array, i) for i in range(rank)])
    return _Extent(array.ctypes.data, array.itemsize, rank, sizes, strides)


def _apart(engine, output, other, in_place, names, what="output"):
    if not engine.lib.codetta_host_overlap(ctypes.byref(_extent(output)), ctypes.byref(_extent(other))):
        return
    same = (output.ctypes.data == other.ctypes.data and output.shape == other.shape and output.strides == other.strides
            and output.dtype == other.dtype)
    if not (in_place and same):
        _fail(f"E0613: {what} {names[0]} overlaps {names[1]}")


def _apart_itself(engine, output, name):
    if engine.lib.codetta_host_overlaps_itself(ctypes.byref(_extent(output))):
        _fail(f"E0613: output {name} overlaps itself: elements of {list(output.shape)} with strides of "
              f"{list(output.strides)} bytes share memory")


def _numbers(array, dtype, infinity, name, why):
    if dtype == 12:
        values = (array.astype(np.uint32) << 16).view(np.float32)
    elif dtype == 10:
        values = (array.astype(np.uint16) << 8).view(np.float16)
    elif dtype == 9:
        values = np.where((array & 0x7F) == 0x7F, np.float32("nan"), np.float32(0))
    else:
        values = array
    bad = np.isnan(values) | (np.isinf(values) if infinity else False)
    if bad.any():
        place = np.argwhere(bad)[0]
        what = "NaN" if np.isnan(values[tuple(place)]) else "an infinity"
        _fail(f"E0619: {name} holds {what} at {place.tolist()}" + (f"; made by {why}" if why else ""))


def _indices(array, size, name):
    values = array.astype(object) if array.dtype == np.uint64 else array.astype(np.int64)
    bad = (values >= size) | (values < 0)
    if np.any(bad):
        place = np.argwhere(bad)[0]
        _fail(f"E0618: index {values[tuple(place)]} is out of range for the size {size}: it stands at {place.tolist()} "
              f"of {name}")
    return values.astype(np.int64)


def _places(array, size, name, checked):
    """Indices; where runs are not checked the nearest that are in range."""
    if checked or size == 0:
        return _indices(array, size, name)
    return np.clip(array.astype(object), 0, size - 1).astype(np.int64)


# ---- host work

def _copy(engine, source, target, name):
    _shaped(source, target.shape, name)
    engine.lib.codetta_host_copy(engine.pool, ctypes.byref(_extent(target)), ctypes.byref(_extent(source)))


def _fill(array, bits):
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize]
    if array.size:
        array.view(unsigned)[...] = unsigned(bits)


def _combine(ufunc, target, places, values, rounds):
    """Sums and products of narrow floats are formed in f32 and rounded once."""
    if rounds and target.dtype == np.float16:
        wide = target.astype(np.float32)
        ufunc.at(wide, places, values.astype(np.float32))
        target[...] = wide.astype(np.float16)
    else:
        ufunc.at(target, places, values)


def _index_put(target, indices, names, values, values_name, add, checked):
    places = tuple(_places(index, target.shape[i], names[i], checked) for i, index in enumerate(indices))
    for place, name in zip(places, names):
        _shaped(place, places[0].shape, name)
    _shaped(values, places[0].shape + target.shape[len(places):], values_name)
    if add:
        _combine(np.add, target, places, values, True)
    else:
        target[places] = values


def _scatter(target, index, name, source, dim, how, checked):
    for i, size in enumerate(index.shape):
        if size > source.shape[i] or (i != dim and size > target.shape[i]):
            _fail(f"E0610: {name} has the wrong shape: {list(index.shape)}")
    places = list(np.indices(index.shape))
    places[dim] = _places(index, target.shape[dim], name, checked)
    values = source[tuple(slice(size) for size in index.shape)]
    if how == 0:
        target[tuple(places)] = values
    else:
        _combine((np.add, np.multiply, np.minimum, np.maximum)[how - 1], target, tuple(places), values, how <= 2)


def _call_out(externs, name, inputs, outputs):
    code = externs[name](inputs, outputs)
    if code:
        _fail(f"E0617: external function {name} failed: it returned {code}")


def _call_alloc(externs, name, inputs, count):
    results = externs[name](inputs)
    if not isinstance(results, (list, tuple)) or len(results) != count:
        _fail(f"E0617: external function {name} failed: {count} arrays are wanted")
    return list(results)


# ---- launches

def _step(array, from_end):
    dim = array.ndim - 1 - from_end
    return 0 if dim < 0 or array.shape[dim] == 1 else _stride(array, dim)


def _step_of(array, dim, count):
    """The stride of so many elements of a dim, from the last, or of it and of those around it, or None."""
    step, inner = 0, 1
    for at in reversed(range(array.ndim - dim)):
        if inner >= count:
            break
        if array.shape[at] == 1:
            continue
        if inner == 1:
            step = _stride(array, at)
        elif _stride(array, at) != step * inner:
            return None
        inner *= array.shape[at]
    return step


def _seen_strides(array, dims):
    steps = [_step_of(array, dim, size) if scale == 1 and array.size else _step(array, dim) for dim, scale, size in dims]
    if None in steps:
        _fail("E0610: dims that the product takes for one are not evenly spaced")
    return [scale * step * array.itemsize for (_, scale, _), step in zip(dims, steps)]


def _items(array):
    """Leading dims of a factor (those before the last two) seen as one: item i begins i * stride + i // inner * skip
    elements behind the first. (stride, skip, inner), (stride, 0, 0) where one stride is enough, or None."""
    stride, outer, count, inner = 0, 0, 1, 0
    for dim in reversed(range(array.ndim - 2)):
        step, now = _stride(array, dim), array.shape[dim]
        if now == 1:
            continue
        if count == 1:
            stride = step
        elif inner == 0 and step != stride * count:
            inner, outer = count, step
        elif inner and step != outer * (count // inner):
            return None
        count *= now
    return stride, outer - stride * inner if inner else 0, inner


def _seen(array, dims):
    """A factor as its product sees it: dims of an array from the last, multiples of their strides, sizes."""
    return np.lib.stride_tricks.as_strided(array, [size for _, _, size in dims], _seen_strides(array, dims))


def _factor(array, transposed, batch, rows, cols, name):
    if transposed:
        array = np.swapaxes(array, -1, -2)
    have = int(np.prod(array.shape[:-2], dtype=np.int64))
    _evenly_spaced((array, name), unaligned=False)  # work may be done
    if array.shape[-2:] != (rows, cols) or have not in (1, batch):
        _fail(f"E0610: {name} does not fit: the product takes [{rows}, {cols}] in a batch of {batch}")
    return array


def _entry(entry, array, indexed, terms, offsets, gathered):
    entry.data = array.ctypes.data + sum(count * _step(array, dim) for dim, count in offsets) * array.itemsize
    for slot, (axis, dim, scale) in enumerate(terms):
        entry.stride[slot if indexed else axis] += scale * _step(array, dim)
    for i, dim in enumerate(gathered):  # stride and size of each
        entry.stride[len(terms) + 2 * i] = _step(array, dim)
        entry.stride[len(terms) + 2 * i + 1] = array.shape[array.ndim - 1 - dim] if dim < array.ndim else 1


def _nowhere(array, entry):
    """Whether an operand begins outside of its array: an empty slice may begin behind the last element."""
    if not array.size:
        return True
    reach = [(size - 1) * stride for size, stride in zip(array.shape, array.strides)]
    first = array.ctypes.data
    return not first + sum(min(r, 0) for r in reach) <= entry.data <= first + sum(max(r, 0) for r in reach)


def _writes_nothing(operand, gemm):
    """Whether an operand is written for each place along an axis that has none."""
    return operand[5] and any((gemm.batch, gemm.m, gemm.n)[axis] == 0 for axis, _, _ in operand[2])


class _EpilogueCall:
    """An epilogue as the engine takes it, with the tables that it points into. operands: (array, indexed,
    [(axis, dim from the last, scale)], [(dim from the last, count)], [dim from the last that an index picks], written)"""

    def __init__(self, engine, index, phases, reductions, operands, scalars, fused=False):
        self.operands = operands
        self.table = (_Operand * max(len(operands), 1))()
        for entry, operand in zip(self.table, operands):
            _entry(entry, *operand[:5])
            if not operand[5] and _nowhere(operand[0], entry):  # read as zeros, where it is not checked
                entry.data, entry.stride = _ZEROS.ctypes.data, (ctypes.c_int64 * 8)()
        self.scalars = (_Scalar * max(len(scalars), 1))()
        for value, (kind, number) in zip(self.scalars, scalars):
            setattr(value, kind, number)
        self.phases = (_Phase * max(len(phases), 1))(*phases)
        self.reductions = (_Reduction * max(len(reductions), 1))(*reductions)
        self.form = _Epilogue()
        setattr(self.form, "fused" if fused else "tiles", engine.functions[index])
        self.form.operands, self.form.scalars = ctypes.addressof(self.table), ctypes.addressof(self.scalars)
        self.form.phases, self.form.reductions = ctypes.addressof(self.phases), ctypes.addressof(self.reductions)
        self.form.phase_count, self.form.reduction_count = len(phases), len(reductions)

    def owes(self, gemm):
        """Whether anything is to be written although the kernel has no elements."""
        return any(operand[5] and operand[0].size and not _writes_nothing(operand, gemm) for operand in self.operands)

    def over_nothing(self, gemm):
        """Each empty extent counts as 1, with accumulators of K = 0; what belongs to arrays without elements, or to a
        part of one that has none, goes to a sink, and reductions over nothing give their identity."""
        nothing = [_nowhere(operand[0], entry) or _writes_nothing(operand, gemm)
                   for entry, operand in zip(self.table, self.operands)]
        for i in range(self.form.reduction_count):
            reduction = self.reductions[i]
            reduction.of_nothing = {0: gemm.n == 0, 1: gemm.m == 0, 3: gemm.m == 0 or gemm.n == 0}.get(reduction.axis,
                                                                                                      True)
        gemm.batch, gemm.m, gemm.k = max(gemm.batch, 1), max(gemm.m, 1), 0
        if gemm.n == 0:
            gemm.n, gemm.split_chunk = max(gemm.split_ways, 1), 1
        self.sink = np.zeros(8 * (gemm.m + gemm.n + 64), np.uint8)
        for entry, is_nothing in zip(self.table, nothing):
            if is_nothing:
                entry.data, entry.stride = self.sink.ctypes.data, (ctypes.c_int64 * 8)()


def _run_kernel(engine, config, gemm, epilogue):
    lib = engine.lib
    form = ctypes.byref(config), ctypes.byref(gemm), ctypes.byref(epilogue)
    if isinstance(config, _MapConfig):
        scratch = _memory(lib.codetta_host_map_workspace(*form), 64)
    else:
        scratch = _memory(lib.codetta_host_workspace(engine.pool, *form), 64)
    run = lib.codetta_host_map_run if isinstance(config, _MapConfig) else lib.codetta_host_run
    with engine.lock:
        run(engine.pool, *form, ctypes.c_void_p(scratch.ctypes.data))


def _makers(engine, made):
    """What computes factors block by block, and all that it points into."""
    makers, keep = (_Maker * len(made))(), []
    for maker, (index, operands, scalars, transposed) in zip(makers, made):
        call = _EpilogueCall(engine, index, [], [], operands, scalars)
        keep.append(call)
        maker.tiles, maker.operand_count = engine.functions[index], len(operands)
        maker.operands, maker.scalars = ctypes.addressof(call.table), ctypes.addressof(call.scalars)
        maker.transposed = transposed
        maker.output = next(i for i, operand in enumerate(operands) if operand[5])
    return makers, keep


def _launch(engine, index, config, split, phases, reductions, fused, plain, a, b, sizes, chunk, operands, scalars,
            more_b=(), made=(), folds=False):
    """A product and what follows it; or several of one A, the B of the others in more_b. made: what computes B."""
    batch, m, n, k = sizes
    if split > 1 and n and (n % split or chunk < 1 or n // split % chunk):
        _fail(f"E0610: {n} columns cannot be split in {split} parts in chunks of {chunk}")
    nowhere = 0, 0, 0

    def place(view):
        stride, skip, inner = _items(view) or nowhere if view.size else nowhere
        if inner and gemm.inner not in (0, inner):
            _fail(f"E0610: {inner} items of a factor lie one way, and {gemm.inner} of another")
        gemm.inner = inner or gemm.inner
        return stride, skip

    gemm = _Gemm(batch, m, n, k, a.ctypes.data, 0, _stride(a, a.ndim - 2), _stride(a, a.ndim - 1))
    gemm.a_batch, gemm.a_skip = place(a)
    gemm.split_ways, gemm.split_chunk, gemm.products = split, chunk, max(len(more_b) + 1, len(made))
    if made:
        makers, _keep = _makers(engine, made)
        gemm.makers = ctypes.addressof(makers)
    else:
        gemm.b, (gemm.b_batch, gemm.b_skip) = b.ctypes.data, place(b)
        gemm.b_k, gemm.b_col = _stride(b, b.ndim - 2), _stride(b, b.ndim - 1)
    for factor, view in zip(gemm.more_b, more_b):
        factor.data, (factor.batch, factor.skip) = view.ctypes.data, place(view)
        factor.k, factor.col = _stride(view, view.ndim - 2), _stride(view, view.ndim - 1)
    empty = batch * m * n == 0
    if plain:
        if empty:
            return
        out = operands[0][0]
        epilogue = _Epilogue()
        epilogue.out, epilogue.out_batch, epilogue.out_row = out.ctypes.data, _step(out, 2), _step(out, 1)
        return _run_kernel(engine, _GemmConfig(*config), gemm, epilogue)
    call = _EpilogueCall(engine, index, phases, reductions, operands, scalars, fused)
    call.form.folds = len(operands) + 1 if folds else 0
    if empty:
        if not call.owes(gemm):
            return
        if fused:
            _fail("E0614: a product without elements that owes results runs in process only, with this kernel")
        call.over_nothing(gemm)
    if fused and k > 1 and gemm.a_k != 1:
        _fail("E0610: the kernel reads consecutive k side by side")
    _run_kernel(engine, _GemmConfig(*config), gemm, call.form)


def _launch_map(engine, index, config, phases, reductions, sizes, operands, scalars):
    """A kernel without a product, over a space of these sizes: batches, rows, columns."""
    space = _Gemm(*sizes)
    call = _EpilogueCall(engine, index, phases, reductions, operands, scalars)
    if 0 in sizes:
        if not call.owes(space):
            return
        call.over_nothing(space)
    _run_kernel(engine, _MapConfig(*config), space, call.form)


def _launch_user(engine, index, name, inputs, outputs):
    """A kernel of the user's over (array, element type) pairs."""
    tables = []
    for arrays in (inputs, outputs):
        table = (_Given * max(len(arrays), 1))()
        for given, (array, dtype) in zip(table, arrays):
            given.data, given.rank, given.dtype = array.ctypes.data, array.ndim, dtype
            given.shape[:array.ndim] = array.shape
            given.strides[:array.ndim] = [_stride(array, dim) for dim in range(array.ndim)]
        tables.append(table)
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
                            ctypes.c_int)(engine.functions[index])
    code = call(None, ctypes.addressof(tables[0]), len(inputs), ctypes.addressof(tables[1]), len(outputs))
    if code:
        _fail(f"E0617: kernel {name} failed: it returned {code}")
