# SPDX-License-Identifier: Apache-2.0
"""A pretended cuda.bindings.driver: device memory is host memory, launches are written down, any call can be told to
fail. What it answers is what tests/unit/runtime_cuda/fake_driver.cpp answers, in the forms of the real package."""
import ctypes
import enum

CAPABILITY = [9, 0]
FAIL = {}  # name of a function -> its status
CALLS = []
LAUNCHES = []  # (function, grid, block, shared bytes, attribute ids with values, parameters)
MEMORY = {}
PLACES = {}  # address -> (memory type, managed, device) of what lies elsewhere than in this device's memory


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701


def _enumeration(name, **members):
    return enum.IntEnum(name, members)


CUfunction_attribute = _enumeration("CUfunction_attribute", CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
                                    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED=14)
CUdevice_attribute = _enumeration(
    "CUdevice_attribute", CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X=5, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y=6,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z=7, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=76)
CUpointer_attribute = _enumeration("CUpointer_attribute", CU_POINTER_ATTRIBUTE_MEMORY_TYPE=2,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED=8, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9)
CUlaunchAttributeID = _enumeration("CUlaunchAttributeID", CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION=4,
                                   CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION=6)
CUtensorMapDataType = _enumeration("CUtensorMapDataType", UINT8=0, UINT16=1, UINT32=2, UINT64=4, FLOAT16=6, FLOAT32=7,
                                   FLOAT64=8, BFLOAT16=9)
CUtensorMapInterleave = _enumeration("CUtensorMapInterleave", NONE=0)
CUtensorMapSwizzle = _enumeration("CUtensorMapSwizzle", NONE=0, S32=1, S64=2, S128=3)
CUtensorMapL2promotion = _enumeration("CUtensorMapL2promotion", NONE=0, L2_256B=3)
CUtensorMapFloatOOBfill = _enumeration("CUtensorMapFloatOOBfill", NONE=0)


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


def _simple(name, *values):
    def function(*_):
        return (_call(name), *values)
    return function


cuInit = _simple("cuInit")
cuCtxGetCurrent = _simple("cuCtxGetCurrent", 7)
cuCtxGetDevice = _simple("cuCtxGetDevice", 0)
cuDeviceGetName = _simple("cuDeviceGetName", b"Pretended GPU 0\0\0")
cuFuncSetAttribute = _simple("cuFuncSetAttribute")
cuMemFreeAsync = _simple("cuMemFreeAsync")
cuStreamSynchronize = _simple("cuStreamSynchronize")
cuOccupancyMaxActiveBlocksPerMultiprocessor = _simple("cuOccupancyMaxActiveBlocksPerMultiprocessor", 1)
cuOccupancyMaxActiveClusters = _simple("cuOccupancyMaxActiveClusters", 66)


def cuDeviceGetAttribute(attribute, device):
    values = {5: 2147483647, 6: 65535, 7: 65535, 16: 132, 75: CAPABILITY[0], 76: CAPABILITY[1]}
    return _call("cuDeviceGetAttribute"), values[int(attribute)]


def cuMemAlloc(count):
    status = _call("cuMemAlloc")
    raw = ctypes.create_string_buffer(b"\xa5" * (count + 256))
    address = (ctypes.addressof(raw) + 255) // 256 * 256
    MEMORY[address] = raw
    return status, address


def cuPointerGetAttributes(count, attributes, address):
    kind, managed, device = PLACES.get(address, (2, False, 0))
    values = {2: kind, 8: managed, 9: device}
    return _call("cuPointerGetAttributes"), [values[int(attribute)] for attribute in attributes[:count]]


def cuMemHostAlloc(count, flags):
    return cuMemAlloc(count)


def cuMemAllocAsync(count, stream):
    return cuMemAlloc(count)


def _move(name):
    def function(to, source, count, stream=0):
        status = _call(name)
        if isinstance(to, bytearray):
            to[:] = ctypes.string_at(source, count)
        else:
            ctypes.memmove(to, source, count)
        return (status,)
    return function


cuMemcpyHtoD = _move("cuMemcpyHtoD")
cuMemcpyDtoDAsync = _move("cuMemcpyDtoDAsync")
cuMemcpyDtoHAsync = _move("cuMemcpyDtoHAsync")


def cuMemsetD8Async(address, value, count, stream):
    ctypes.memset(address, value, count)
    return (_call("cuMemsetD8Async"),)


def cuModuleLoadData(image):
    return _call("cuModuleLoadData"), image


def cuModuleGetFunction(module, name):
    # The pretended image says behind the name how many bytes of parameters it takes.
    if name + b":" not in module:
        _call("cuModuleGetFunction")
        return 500, None
    count = int(module[module.index(name + b":") + len(name) + 1:].split(b" ")[0])
    return _call("cuModuleGetFunction"), (name.decode(), count)


def cuTensorMapEncodeTiled(dtype, rank, address, sizes, strides, box, steps, interleave, swizzle, promotion, fill):
    made, mixed = CUtensorMap(), 14695981039346656037
    numbers = []
    for i in range(rank):
        numbers += [sizes[i], box[i], steps[i], strides[i] if i + 1 < rank else 0]
    for value in [*numbers, dtype, interleave, swizzle, promotion, fill]:
        mixed = (mixed ^ int(value)) * 1099511628211 % (1 << 64)
    made.words[0], made.words[1] = address, mixed
    return _call("cuTensorMapEncodeTiled"), made


def cuLaunchKernelEx(config, function, parameters, extra):
    name, count = function
    value = ctypes.c_void_p.from_address(parameters).value
    attributes = []
    for attribute in config.attrs:
        cluster = int(attribute.id) == 4
        dims = attribute.value.clusterDim if cluster else None
        attributes.append((int(attribute.id), *((dims.x, dims.y, dims.z) if cluster else
                                                (attribute.value.programmaticStreamSerializationAllowed,))))
    LAUNCHES.append((name, (config.gridDimX, config.gridDimY, config.gridDimZ),
                     (config.blockDimX, config.blockDimY, config.blockDimZ), config.sharedMemBytes, attributes,
                     ctypes.string_at(value, count)))
    return (_call("cuLaunchKernelEx"),)
