# SPDX-License-Identifier: Apache-2.0
"""Element types for the NumPy reference: names, bit-exact rounding, conversion rules, and .npy/.safetensors writing.

Tests only. Floating values are held as float64 arrays and rounded with round_float(); integers are held in their own
NumPy type. The rules are those of docs/semantics.md.
"""
import ast
import json
import struct

import numpy as np

# name: (mantissa bits without the hidden one, exponent of the smallest normal, largest finite, saturates)
FLOATS = {
    "f8e4m3": (3, -6, 448.0, True),
    "f8e5m2": (2, -14, 57344.0, True),
    "f16": (10, -14, 65504.0, False),
    "bf16": (7, -126, float.fromhex("0x1.fep127"), False),
    "f32": (23, -126, float.fromhex("0x1.fffffep127"), False),
    "f64": (52, -1022, float.fromhex("0x1.fffffffffffffp1023"), False),
}
INTS = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}
DTYPES = ["bool", *INTS, *FLOATS]
SAFETENSORS = {
    "bool": "BOOL", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64", "u8": "U8", "u16": "U16", "u32": "U32",
    "u64": "U64", "f8e4m3": "F8_E4M3", "f8e5m2": "F8_E5M2", "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64",
}


def is_float(dtype):
    return dtype in FLOATS


def numpy_dtype(dtype):
    """The NumPy type of a dtype, or None for bf16 and the 8-bit floats, which NumPy lacks."""
    if dtype == "bool":
        return np.dtype(np.bool_)
    if dtype in INTS:
        return np.dtype(INTS[dtype])
    return {"f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}.get(dtype)


def round_float(x, dtype):
    """float64 -> the nearest value of `dtype` (ties to even), as float64. The 8-bit floats saturate, also infinities."""
    x = np.asarray(x, np.float64)
    if dtype == "f64":
        return x
    mantissa, min_exponent, largest, saturates = FLOATS[dtype]
    finite = np.isfinite(x)
    value = np.where(finite, x, 0.0)
    exponent = np.maximum(np.frexp(value)[1] - 1, min_exponent)
    quantum = exponent - mantissa
    rounded = np.ldexp(np.rint(np.ldexp(value, -quantum)), quantum)
    limit = largest if saturates else np.inf
    rounded = np.where(np.abs(rounded) > largest, np.copysign(limit, value), rounded)
    special = np.where(np.isnan(x), x, np.copysign(limit, x))
    return np.where(finite, rounded, special)


def float_to_int(x, dtype):
    """float64 array without a fraction -> integer type: NaN becomes 0, the rest saturates."""
    info = np.iinfo(INTS[dtype])
    x = np.where(np.isnan(x), 0.0, np.asarray(x, np.float64))
    # The largest i64 and u64 are not float64 values, so the upper limit is compared as its power of two.
    above = x >= float(int(info.max) + 1)
    below = x <= float(info.min)
    inside = np.where(above | below, 0.0, x)
    out = inside.astype(INTS[dtype])
    out = np.where(above, np.array(info.max, INTS[dtype]), out)
    return np.where(below, np.array(info.min, INTS[dtype]), out)


def convert(array, source, target, fraction="truncate"):
    """Converts between dtypes in the reference's representation. fraction: "truncate" (cast) or "nearest" (a store)."""
    array = np.asarray(array)
    if target == "bool":
        return array != 0
    if target in FLOATS:
        if source in INTS and target == "f32":
            return array.astype(np.float32).astype(np.float64)  # one rounding, also for 64-bit integers
        return round_float(array.astype(np.float64), target)
    if source in FLOATS:
        return float_to_int(np.rint(array) if fraction == "nearest" else np.trunc(array), target)
    with np.errstate(all="ignore"):
        return array.astype(INTS[target])  # wraps


def encode(array, dtype):
    """The little-endian bytes of an array whose values are all values of `dtype`."""
    native = numpy_dtype(dtype)
    if native is not None:
        return np.ascontiguousarray(array).astype(native).tobytes()
    x = np.ascontiguousarray(array, np.float64)
    if dtype == "bf16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    mantissa, min_exponent, _, _ = FLOATS[dtype]
    finite = np.isfinite(x)
    magnitude = np.where(finite, np.abs(x), 0.0)
    exponent = np.where(magnitude > 0, np.maximum(np.frexp(magnitude)[1] - 1, min_exponent), min_exponent)
    # Subnormals share the smallest normal's exponent; their hidden bit is 0, so the sum below gives field 0.
    code = np.ldexp(magnitude, mantissa - exponent).astype(np.int64) + ((exponent - min_exponent) << mantissa)
    code = np.where(finite, code, 0x7C if dtype == "f8e5m2" else 0x7F)
    code = np.where(np.isnan(x), 0x7F, code) | (np.signbit(x).astype(np.int64) << 7)
    return code.astype(np.uint8).tobytes()


def decode(data, dtype, shape):
    """The inverse of encode(); floats come back as float64."""
    native = numpy_dtype(dtype)
    if native is not None:
        array = np.frombuffer(data, native).reshape(shape)
        return array.astype(np.float64) if is_float(dtype) else array
    if dtype == "bf16":
        bits = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        with np.errstate(invalid="ignore"):  # signaling NaNs
            return bits.view(np.float32).astype(np.float64).reshape(shape)
    mantissa, min_exponent, _, _ = FLOATS[dtype]
    code = np.frombuffer(data, np.uint8).astype(np.int64)
    field, fraction = (code & 0x7F) >> mantissa, code & ((1 << mantissa) - 1)
    value = np.ldexp(np.where(field > 0, fraction + (1 << mantissa), fraction).astype(np.float64),
                     np.maximum(field, 1) - 1 + min_exponent - mantissa)
    if dtype == "f8e4m3":
        value = np.where((code & 0x7F) == 0x7F, np.nan, value)
    else:
        value = np.where(field == 0x1F, np.where(fraction == 0, np.inf, np.nan), value)
    return np.where(code & 0x80, -value, value).reshape(shape)


def write_npy(path, array, dtype):
    """Writes a .npy file; bf16 and the 8-bit floats get descr '<V2' or '|V1' and the comment "# codetta_dtype: bf16"."""
    native = numpy_dtype(dtype)
    if native is not None:
        np.save(path, np.ascontiguousarray(array).astype(native).reshape(np.shape(array)))
        return
    header = {"descr": "<V2" if dtype == "bf16" else "|V1", "fortran_order": False, "shape": np.shape(array)}
    text = f"{header!r} # codetta_dtype: {dtype}".encode()  # a comment of Python: NumPy takes no further key
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + encode(array, dtype))


def read_npy(path, dtype):
    """Reads what write_npy or Codetta wrote; floats come back as float64. The file must hold `dtype`."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<H", data[8:10])
    text, _, comment = data[10:10 + length].decode().partition("# codetta_dtype:")
    header = ast.literal_eval(text.strip())
    written = comment.strip() or header.get("codetta_dtype", dtype)  # an entry, in older files
    native = numpy_dtype(dtype)
    expected = native.str if native is not None else ("<V2" if dtype == "bf16" else "|V1")
    if header["descr"] != expected or written != dtype or header["fortran_order"]:
        raise ValueError(f"{path}: {header} is not a row-major {dtype}")
    return decode(data[10 + length:], dtype, header["shape"])


def write_safetensors(path, tensors):
    """tensors: {name: (array, dtype)}; the names are written in order."""
    header, offset, chunks = {}, 0, []
    for name, (array, dtype) in tensors.items():
        data = encode(array, dtype)
        header[name] = {"dtype": SAFETENSORS[dtype], "shape": list(np.shape(array)),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        chunks.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def read_safetensors(path):
    """{name: (array, dtype)}; floats come back as float64."""
    names = {value: key for key, value in SAFETENSORS.items()}
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype = names[entry["dtype"]]
        out[name] = (decode(data[8 + length + begin:8 + length + end], dtype, entry["shape"]), dtype)
    return out
