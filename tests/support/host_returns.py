# SPDX-License-Identifier: Apache-2.0
"""Functions of the engine's library, as a module has called them, return what src/runtime/cpu/host_library.cpp says:
ctypes takes what nobody declared for an int, of which a C bool leaves most bits undefined."""
import ctypes
import pathlib
import re

_RETURNS = {"bool": ctypes.c_bool, "i32": ctypes.c_int, "i64": ctypes.c_int64, "void*": ctypes.c_void_p,
            "const void*": ctypes.c_void_p}


def check_returns(lib):
    source = pathlib.Path(__file__).parents[2] / "src/runtime/cpu/host_library.cpp"
    exported = {name: returns.strip() for returns, name in re.findall(
        r"^CODETTA_HOST_EXPORT ([\w ]+\*?) ?(codetta_host_\w+)\(", source.read_text(), re.M)}
    called = [name for name in vars(lib) if name.startswith("codetta_host_")]
    assert len(called) > 3, called
    for name in called:
        returns = exported[name]
        if returns != "void":
            assert getattr(lib, name).restype is _RETURNS[returns], f"{name} returns {returns}"
