# SPDX-License-Identifier: Apache-2.0
"""A pretended cuda.bindings.driver: device memory is host memory, launches are written down, any call can be told to
fail. What it answers is what tests/unit/runtime_cuda/fake_driver.cpp answers, in the forms of the real package."""
import ctypes
import enum

CAPABILITY = [9, 0]
COOPERATIVE = [1]  # whether the device can launch such kernels
FAIL = {}  # name of a function -> its status
CALLS = []
LAUNCHES = []  # (function, grid, block, shared bytes, attribute ids with values, parameters)
MEMORY = {}
OWNERS = {}  # address -> device, of memory
DEVICES = [2]
HOME = 7  # the context of the thread, of device 0; primary ones are 100 and on
CURRENT = [HOME]
STREAMS = {0: HOME}  # stream -> context
ALIVE = set()  # streams and events that are made and not destroyed
EVENTS = {}  # event -> [context, what has ended before it, by stream, the capture that it is of]
CAPTURES = {}  # stream -> the stream whose capture it is part of
MODE = [0]  # of the thread: what it may call while a stream is being captured
WRONG = []  # work of a wrong device, memory of another one, streams on the same memory that nothing orders
_SEEN, _USES, _HOST = {}, {}, {}  # by stream what has ended before; by memory the last use by stream; what the host waited for
PLACES = {}  # address -> (memory type, managed, device) of what lies elsewhere than in this device's memory


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900


def _enumeration(name, **members):
    return enum.IntEnum(name, members)


CUfunction_attribute = _enumeration("CUfunction_attribute", CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK=0,
                                    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES=1,
                                    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
                                    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED=14)
CUdevice_attribute = _enumeration(
    "CUdevice_attribute", CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X=5, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y=6,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z=7, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=16,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X=2, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y=3, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z=4,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH=95, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=97,
    CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE=109, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED=127,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=76)
CUpointer_attribute = _enumeration("CUpointer_attribute", CU_POINTER_ATTRIBUTE_CONTEXT=1,
                                   CU_POINTER_ATTRIBUTE_MEMORY_TYPE=2, CU_POINTER_ATTRIBUTE_IS_MANAGED=8,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9)
CUlaunchAttributeID = _enumeration("CUlaunchAttributeID", CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW=1,
                                   CU_LAUNCH_ATTRIBUTE_COOPERATIVE=2, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION=4,
                                   CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION=6)
CUaccessProperty = _enumeration("CUaccessProperty", CU_ACCESS_PROPERTY_NORMAL=0, CU_ACCESS_PROPERTY_STREAMING=1,
                                CU_ACCESS_PROPERTY_PERSISTING=2)
CUstreamCaptureMode = _enumeration("CUstreamCaptureMode", CU_STREAM_CAPTURE_MODE_GLOBAL=0,
                                   CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1, CU_STREAM_CAPTURE_MODE_RELAXED=2)
CUtensorMapDataType = _enumeration("CUtensorMapDataType", UINT8=0, UINT16=1, UINT32=2, UINT64=4, FLOAT16=6, FLOAT32=7,
                                   FLOAT64=8, BFLOAT16=9)
CUtensorMapInterleave = _enumeration("CUtensorMapInterleave", NONE=0, B16=1, B32=2)
CUtensorMapSwizzle = _enumeration("CUtensorMapSwizzle", NONE=0, S32=1, S64=2, S128=3)
CUtensorMapL2promotion = _enumeration("CUtensorMapL2promotion", NONE=0, L2_64B=1, L2_128B=2, L2_256B=3)
CUtensorMapFloatOOBfill = _enumeration("CUtensorMapFloatOOBfill", NONE=0, NAN_REQUEST_ZERO_FMA=1)


class cuuint64_t(int):
    pass


class cuuint32_t(int):
    pass


class _Record:
    """Attributes that are there once they are assigned, or read as records of their own."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = _Record()
        object.__setattr__(self, name, value)
        return value


class CUlaunchConfig(_Record):
    pass


class CUlaunchAttribute(_Record):
    pass


class CUtensorMap:
    def __init__(self):
        self.words = (ctypes.c_uint64 * 16)()

    def getPtr(self):
        return ctypes.addressof(self.words)


def _call(name):
    CALLS.append(name)
    return CUresult(FAIL.get(name, 0))


def _unsafe(name):
    """Of a call that may not be made while a stream is captured, unless the thread has relaxed that."""
    status = _call(name)
    if CAPTURES and MODE[0] != CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED:
        WRONG.append(f"{name} spoils a capture")
        return CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    return status


def cuThreadExchangeStreamCaptureMode(mode):
    before, MODE[0] = CUstreamCaptureMode(MODE[0]), mode
    return _call("cuThreadExchangeStreamCaptureMode"), before


def _simple(name, *values):
    def function(*_):
        return (_call(name), *values)
    return function


def _device(context):
    return 0 if context == HOME else context - 100


def _piece(address):
    return next((start for start, raw in MEMORY.items() if start <= address < start + max(len(raw) - 256, 1)), None)


def _join(into, other):
    for stream, number in other.items():
        into[stream] = max(into.get(stream, 0), number)


def _begin(stream):
    seen = _SEEN.setdefault(stream, {})
    _join(seen, _HOST)
    seen[stream] = seen.get(stream, 0) + 1
    return seen


def _look(what, stream, addresses, anywhere=False):
    """Work on a stream that uses memory at these addresses; anywhere: of one device at least that is the stream's."""
    stream = int(stream)
    context = STREAMS.get(stream, HOME)
    if context != CURRENT[0]:
        WRONG.append(f"{what}: the stream is of device {_device(context)}, and the thread on {_device(CURRENT[0])}")
    seen = _begin(stream)
    pieces = {piece for piece in map(_piece, addresses) if piece is not None}
    devices = {OWNERS.get(piece, 0) for piece in pieces}
    if devices and (_device(context) not in devices if anywhere else devices != {_device(context)}):
        WRONG.append(f"{what} on device {_device(context)} uses memory of {sorted(devices)}")
    for piece in pieces:
        for other, (number, last) in _USES.setdefault(piece, {}).items():
            if other != stream and seen.get(other, 0) < number:
                WRONG.append(f"{what} does not wait for {last} of another stream, which uses the same memory")
        _USES[piece][stream] = seen[stream], what


def look_behind(called, kept):
    """When a call on this stream is over: it is behind all work of the others, and `kept` is what the call leaves."""
    for stream, seen in _SEEN.items():
        if stream != called and max(_SEEN.get(called, {}).get(stream, 0), _HOST.get(stream, 0)) < seen[stream]:
            WRONG.append(f"the stream of the call is not behind all work of stream {stream}")
    if ALIVE - kept:
        WRONG.append(f"streams or events are left: {sorted(ALIVE - kept)}")


def cuCtxGetCurrent():
    return _call("cuCtxGetCurrent"), CURRENT[0]


def cuCtxSetCurrent(context):
    CURRENT[0] = int(context)
    return (_call("cuCtxSetCurrent"),)


def cuCtxGetDevice():
    return _call("cuCtxGetDevice"), _device(CURRENT[0])


def cuDeviceGetCount():
    return _call("cuDeviceGetCount"), DEVICES[0]


def cuDeviceGet(ordinal):
    return _call("cuDeviceGet"), ordinal


def cuDevicePrimaryCtxRetain(device):
    return _call("cuDevicePrimaryCtxRetain"), 100 + device


def _made(name, handle, call=_call):
    status = call(name)
    if status == 0:
        ALIVE.add(handle)
    return status, handle


def cuStreamCreate(flags):
    stream = 1000 + len(STREAMS)
    STREAMS[stream] = CURRENT[0]
    return _made("cuStreamCreate", stream, _unsafe)


def cuEventCreate(flags):
    event = 5000 + len(EVENTS)
    EVENTS[event] = [CURRENT[0], {}, None]
    return _made("cuEventCreate", event)


def cuStreamDestroy(stream):
    ALIVE.remove(stream)
    return (_call("cuStreamDestroy"),)


def cuEventDestroy(event):
    ALIVE.remove(event)
    return (_call("cuEventDestroy"),)


def cuEventRecord(event, stream):
    if EVENTS[event][0] != STREAMS[int(stream)]:
        WRONG.append("an event is recorded on another device")
    EVENTS[event][1:] = dict(_begin(int(stream))), CAPTURES.get(int(stream))
    return (_call("cuEventRecord"),)


def cuStreamWaitEvent(stream, event, flags):
    status = _call("cuStreamWaitEvent")
    if not int(status):
        _join(_begin(int(stream)), EVENTS[event][1])
        capture = EVENTS[event][2]
        if CAPTURES.get(int(stream), capture) != capture:
            WRONG.append("a stream of a capture waits for an event of another one, or of none")
        elif capture is not None:
            CAPTURES[int(stream)] = capture
    return (status,)


def cuStreamIsCapturing(stream):
    return _call("cuStreamIsCapturing"), int(int(stream) in CAPTURES)


def end_of_work():
    """The host has waited for all streams."""
    for seen in _SEEN.values():
        _join(_HOST, seen)


def cuStreamSynchronize(stream):
    _join(_HOST, _SEEN.get(int(stream), {}))
    return (_unsafe("cuStreamSynchronize"),)


def cuMemFreeAsync(address, stream):
    _look("giving memory back", stream, [address])
    return (_call("cuMemFreeAsync"),)


cuInit = _simple("cuInit")
cuDeviceGetName = _simple("cuDeviceGetName", b"Pretended GPU 0\0\0")
cuFuncSetAttribute = _simple("cuFuncSetAttribute")
cuOccupancyMaxActiveBlocksPerMultiprocessor = _simple("cuOccupancyMaxActiveBlocksPerMultiprocessor", 1)
cuOccupancyMaxActiveClusters = _simple("cuOccupancyMaxActiveClusters", 66)


def cuDeviceGetAttribute(attribute, device):
    values = {2: 1024, 3: 1024, 4: 64, 5: 2147483647, 6: 65535, 7: 65535, 16: 132, 75: CAPABILITY[0], 76: CAPABILITY[1],
              95: COOPERATIVE[0], 97: 232448, 109: 134213632, 127: 1}
    return _call("cuDeviceGetAttribute"), values[int(attribute)]


def cuFuncGetAttribute(attribute, function):
    return _call("cuFuncGetAttribute"), {0: 1024, 1: 1024}[int(attribute)]


def cuMemAlloc(count, name="cuMemAlloc"):
    status = _unsafe(name) if name != "cuMemAllocAsync" else _call(name)
    raw = ctypes.create_string_buffer(b"\xa5" * (count + 256))
    address = (ctypes.addressof(raw) + 255) // 256 * 256
    MEMORY[address] = raw
    OWNERS[address] = _device(CURRENT[0])
    _USES.pop(address, None)
    return status, address


def cuPointerGetAttributes(count, attributes, address):
    kind, managed, device = PLACES.get(address, (2, False, 0))
    # The ordinal as cuda.bindings 13.3 tells it: of all memory 0.
    values = {1: HOME if device == 0 else 100 + device if device > 0 else 0, 2: kind, 8: managed, 9: 0}
    return _call("cuPointerGetAttributes"), [values[int(attribute)] for attribute in attributes[:count]]


def cuMemHostAlloc(count, flags):
    return cuMemAlloc(count, "cuMemHostAlloc")


def cuMemAllocAsync(count, stream):
    status, address = cuMemAlloc(count, "cuMemAllocAsync")
    OWNERS[address] = _device(STREAMS.get(int(stream), HOME))
    return status, address


def _move(name):
    def function(to, source, count, stream=None):
        status = _call(name)
        if stream is not None:
            _look(name, stream, [one for one in (to, source) if isinstance(one, int)])
        if isinstance(to, bytearray):
            to[:] = ctypes.string_at(source, count)
        else:
            ctypes.memmove(to, source, count)
        return (status,)
    return function


cuMemcpyHtoDAsync = _move("cuMemcpyHtoDAsync")
cuMemcpyDtoDAsync = _move("cuMemcpyDtoDAsync")
cuMemcpyDtoHAsync = _move("cuMemcpyDtoHAsync")


def cuMemcpyPeerAsync(to, context, source, source_context, count, stream):
    status = _call("cuMemcpyPeerAsync")
    for address, wanted in ((to, context), (source, source_context)):
        if OWNERS.get(_piece(address)) != _device(wanted):
            WRONG.append("a copy between devices names another one than that of its memory")
    _look("a copy between devices", stream, [to, source], anywhere=True)
    ctypes.memmove(to, source, count)
    return (status,)


def cuMemsetD8Async(address, value, count, stream):
    _look("filling", stream, [address])
    ctypes.memset(address, value, count)
    return (_call("cuMemsetD8Async"),)


def cuModuleLoadData(image):
    return _unsafe("cuModuleLoadData"), (image, CURRENT[0])


def cuModuleGetFunction(module, name):
    # The pretended image says behind the name how many bytes of parameters it takes, or each of them does.
    module, context = module
    if name + b":" not in module:
        _call("cuModuleGetFunction")
        return 500, None
    counts = module[module.index(name + b":") + len(name) + 1:].split(b" ")[0].split(b",")
    return _call("cuModuleGetFunction"), (name.decode(), [int(count) for count in counts], context)


def _map(address, numbers):
    made, mixed = CUtensorMap(), 14695981039346656037
    for value in numbers:
        mixed = (mixed ^ int(value) % (1 << 64)) * 1099511628211 % (1 << 64)
    made.words[0], made.words[1] = address, mixed
    return made


def _types(kind, *lists):
    """Lists are of the package's own integers, or of Python's, as the real functions want them."""
    for values in lists:
        assert all(type(value) is kind for value in values), values


def cuTensorMapEncodeTiled(dtype, rank, address, sizes, strides, box, steps, interleave, swizzle, promotion, fill):
    _types(cuuint64_t, sizes, strides)
    _types(cuuint32_t, box, steps)
    numbers = []
    for i in range(rank):
        numbers += [sizes[i], box[i], steps[i], strides[i] if i + 1 < rank else 0]
    made = _map(address, [*numbers, dtype, interleave, swizzle, promotion, fill])
    return _call("cuTensorMapEncodeTiled"), made


def cuTensorMapEncodeIm2col(dtype, rank, address, sizes, strides, lower, upper, channels, pixels, steps, interleave,
                            swizzle, promotion, fill):
    _types(cuuint64_t, sizes, strides)
    _types(cuuint32_t, steps)
    _types(int, lower, upper)
    numbers = []
    for i in range(rank):
        numbers += [sizes[i], steps[i], strides[i] if i + 1 < rank else 0]
    for corners in zip(lower, upper):
        numbers += corners
    made = _map(address, [*numbers, dtype, interleave, swizzle, promotion, fill, channels, pixels])
    return _call("cuTensorMapEncodeIm2col"), made


def _window(value):
    window = value.accessPolicyWindow
    return window.num_bytes, round(1000 * window.hitRatio), int(window.hitProp), int(window.missProp)


_SAID = {1: _window, 2: lambda value: (value.cooperative,),
         4: lambda value: (value.clusterDim.x, value.clusterDim.y, value.clusterDim.z),
         6: lambda value: (value.programmaticStreamSerializationAllowed,)}


def cuLaunchKernelEx(config, function, parameters, extra):
    name, counts, context = function
    if context != CURRENT[0]:
        WRONG.append(f"{name} is loaded on device {_device(context)}, and launched on {_device(CURRENT[0])}")
    passed = b""
    for i, count in enumerate(counts):
        one = ctypes.string_at(ctypes.c_void_p.from_address(parameters + 8 * i).value, count)
        passed += one + bytes(-count % 8 if len(counts) > 1 else 0)
    attributes = [(int(one.id), *(int(number) for number in _SAID[int(one.id)](one.value))) for one in config.attrs]
    for one in config.attrs:
        if int(one.id) == 1:
            passed += one.value.accessPolicyWindow.base_ptr.to_bytes(8, "little")
    _look(name, config.hStream, [int.from_bytes(passed[at:at + 8], "little") for at in range(0, len(passed), 8)])
    LAUNCHES.append((name, (config.gridDimX, config.gridDimY, config.gridDimZ),
                     (config.blockDimX, config.blockDimY, config.blockDimZ), config.sharedMemBytes, attributes, passed))
    return (_call("cuLaunchKernelEx"),)
