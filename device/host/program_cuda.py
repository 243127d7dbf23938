# SPDX-License-Identifier: Apache-2.0
# ---- CUDA: device memory through cuda.bindings, launches planned by the engine (device/host/gpu_plan.h)
#
# Arguments are tensors with data_ptr(), shape and stride() (PyTorch's), or with __cuda_array_interface__. Temporaries
# and scratch are taken from the stream's memory pool and given back to it, in the order of the stream.

class _Array:
    """A tensor in device memory with those attributes of numpy's that the code above reads; strides in bytes."""

    def __init__(self, address, dtype, shape, strides, kind=None):
        self.data, self.dtype, self.shape, self.strides = address, np.dtype(dtype), tuple(shape), tuple(strides)
        self.kind = kind  # the name of its elements' type, where it is none of the program's
        self.itemsize, self.ndim = self.dtype.itemsize, len(self.shape)
        self.size = int(np.prod(self.shape, dtype=np.int64))
        self.ctypes = self

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (int(self.data), False),
                "strides": tuple(self.strides), "version": 3}

    def __getitem__(self, parts):
        """A part of each dim."""
        first = sum(part.start * stride for part, stride in zip(parts, self.strides)) if self.size else 0
        return _Array(self.data + first, self.dtype, [part.stop - part.start for part in parts], self.strides, self.kind)

    def swapped(self):
        """The last two dims exchanged."""
        return _Array(self.data, self.dtype, self.shape[:-2] + self.shape[-1:] + self.shape[-2:-1],
                      self.strides[:-2] + self.strides[-1:] + self.strides[-2:-1])


class _Entry(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint8), ("index", ctypes.c_uint32), ("symbol", ctypes.c_char_p),
                ("threads", ctypes.c_int32), ("shared_bytes", ctypes.c_int32), ("results_per_block", ctypes.c_int32)]


class _Map(ctypes.Structure):
    _fields_ = [("source", ctypes.c_uint8), ("column_major", ctypes.c_bool), ("operand", ctypes.c_uint32),
                ("box_fast", ctypes.c_int32), ("box_slow", ctypes.c_int32), ("swizzle_bytes", ctypes.c_int32)]


class _GpuReduction(ctypes.Structure):
    _fields_ = [("axis", ctypes.c_uint8), ("phase", ctypes.c_uint32), ("element_bytes", ctypes.c_int32),
                ("values", ctypes.c_int32)]


class _OperandFacts(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_uint8), ("is_store", ctypes.c_bool), ("batch", ctypes.c_int8), ("row", ctypes.c_int8)]


class _Kernel(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p)] + [(n, ctypes.c_uint8) for n in ("family", "a_dtype", "b_dtype")] + [
        (n, ctypes.c_bool) for n in ("has_product", "a_k_major", "b_k_major", "pack_a", "pack_b", "persistent",
                                     "stream_k", "keeps_accumulators", "folds")] + [("missing_when", ctypes.c_uint8)] + [
        (n, ctypes.c_int32) for n in ("accumulator_bytes", "tile_m", "tile_n", "tile_k", "cluster_m", "cluster_n",
                                      "k_split", "group", "alignment", "piece_rows", "piece_cols", "ways", "loaded_bytes",
                                      "spread_a", "a_rows")] + [(n, ctypes.c_bool) for n in ("combines", "whole_rows")] + [
        ("entries", ctypes.POINTER(_Entry)), ("maps", ctypes.POINTER(_Map)),
        ("reductions", ctypes.POINTER(_GpuReduction)), ("operands", ctypes.POINTER(_OperandFacts))] + [
        (n, ctypes.c_int32) for n in ("entry_count", "map_count", "reduction_count", "operand_count",
                                      "argument_count")]


_PLANS_NOTHING = (0,) * (len(_Kernel._fields_) - 10)  # of a kernel of the user's


class _Limits(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("multiprocessors", ctypes.c_int32), ("max_grid", ctypes.c_int64 * 3)]


class _Trouble(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("headline", ctypes.c_char * 256), ("reason", ctypes.c_char * 448),
                ("help", ctypes.c_char_p), ("unaligned", ctypes.c_bool)]


class _Factor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p)] + [
        (n, ctypes.c_int64) for n in ("batch", "other", "k", "skip", "inner", "batches", "others", "ks")] + [("empty", ctypes.c_bool)]


class _Grid(ctypes.Structure):
    _fields_ = [("blocks", ctypes.c_int64 * 3), ("skipped", ctypes.c_bool), ("packs", ctypes.c_bool)]


class _StepView(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("dtype", ctypes.c_int32),
                ("rank", ctypes.c_int32), ("size", ctypes.c_int64 * 8), ("stride", ctypes.c_int64 * 8)]


class _Fault(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint32) for n in ("state", "step", "which", "huge")] + [
        (n, ctypes.c_int64) for n in ("offset", "value", "size")]


class _Tiled(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("dtype", "interleave", "swizzle", "l2_promotion", "fill")] + [
        ("sizes", ctypes.c_uint64 * 3), ("strides", ctypes.c_uint64 * 2), ("box", ctypes.c_uint32 * 3),
        ("steps", ctypes.c_uint32 * 3)]


def _cu(what, result):
    """The values of a driver's call, or what is wrong with it."""
    status, values = result[0], result[1:]
    if int(status) != 0:
        name = getattr(status, "name", str(status))
        _fail(f"E0{643 if int(status) == 2 else 647}: {what} with error: {name} ({int(status)})")
    return values[0] if len(values) == 1 else values


class _Relaxed:
    """While it is entered, this thread may load modules and allocate although some stream of the process is being
    captured, and the capture stays valid."""

    def __init__(self, driver):
        self.driver = driver

    def __enter__(self):
        relaxed = self.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self.status, self.before = self.driver.cuThreadExchangeStreamCaptureMode(relaxed)

    def __exit__(self, *_):
        if int(self.status) == 0:
            self.driver.cuThreadExchangeStreamCaptureMode(self.before)


def _not_captured(call, why):
    """Of what waits for the stream."""
    status, captured = call.engine.driver.cuStreamIsCapturing(call.stream)
    implicit = 906  # CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: the default stream, while another of the context is captured
    if int(status) == implicit or int(_cu("Failed to ask for a capture", (status, captured))) != 0:
        _fail(f"E0646: {why}")


def _table(kind, rows):
    return (kind * max(len(rows), 1))(*rows)


def _files(image):
    """The files of a kernel's image: one, or those that a table in front of them tells (image_parts.h)."""
    if image[:8] != b"codetta2":
        return [image]
    count, *places = (int.from_bytes(image[at:at + 8], "little") for at in range(8, 48, 8))
    return [image[places[2 * i]:places[2 * i] + places[2 * i + 1]] for i in range(count)]


class _Loaded:
    """A kernel in one context: its tables and functions."""

    def __init__(self, engine, index):
        image, name, numbers, entries, maps, reductions, operands, arguments = KERNELS[index]
        driver = engine.driver
        self.name = name
        self.keep = [_table(_Entry, [(*e[:2], e[2].encode(), *e[3:]) for e in entries]), _table(_Map, maps),
                     _table(_GpuReduction, reductions), _table(_OperandFacts, operands)]
        self.table = _Kernel(name.encode(), *numbers or _PLANS_NOTHING, *self.keep, len(entries), len(maps),
                             len(reductions), len(operands), arguments)
        self.images = _files(base64.b64decode(image))
        self.modules = [_cu(f"Failed to load kernel {name}", driver.cuModuleLoadData(file)) for file in self.images]
        self.functions, self.fits = [], {}
        self.user, self.allowed = None, 0  # of a kernel of the user's: limits, dynamic shared memory that it may have
        attribute = driver.CUfunction_attribute
        for entry in self.keep[0][:len(entries)]:
            for module in self.modules:
                found = driver.cuModuleGetFunction(module, entry.symbol)
                if int(found[0]) != 500:  # CUDA_ERROR_NOT_FOUND: in another file
                    break
            function = _cu(f"Failed to find kernel {name}", found)
            if entry.shared_bytes:
                _cu(f"Failed to set the allowed dynamic shared memory size to {entry.shared_bytes}",
                    driver.cuFuncSetAttribute(function, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                              entry.shared_bytes))
            if entry.kind == 0 and self.table.cluster_m * self.table.cluster_n > 8:
                _cu("Failed to allow large clusters", driver.cuFuncSetAttribute(
                    function, attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))
            self.functions.append(function)


class _Context:
    """What is kept of a context: facts of its device, kernels and constants, each loaded when first needed."""

    def __init__(self, engine):
        driver = engine.driver
        self.device = _cu("Failed to find the context's device", driver.cuCtxGetDevice())
        self.name = _cu("Failed to name the device", driver.cuDeviceGetName(256, self.device)).rstrip(b"\0")
        self.driver = driver
        self.major = self.fact("COMPUTE_CAPABILITY_MAJOR")
        minor = self.fact("COMPUTE_CAPABILITY_MINOR")
        if self.major != CAPABILITY[0] or (minor != CAPABILITY[1] if CAPABILITY[2] else minor < CAPABILITY[1]):
            _fail(f"E0430: the kernels are compiled for {ARCHITECTURE}, and {self.name.decode()} has compute "
                  f"capability {self.major}.{minor}")
        self.limits = _Limits(self.name, self.fact("MULTIPROCESSOR_COUNT"), (ctypes.c_int64 * 3)(
            *(self.fact("MAX_GRID_DIM_" + axis) for axis in "XYZ")))
        self.kernels, self.constants = {}, {}
        self.fault = None  # host memory that kernels tell in what they find wrong
        self.user = None  # limits of launches of kernels of the user's

    def fact(self, name):
        return _cu("Failed to ask for a fact of the device", self.driver.cuDeviceGetAttribute(
            getattr(self.driver.CUdevice_attribute, "CU_DEVICE_ATTRIBUTE_" + name), self.device))


class _GpuEngine:
    def __init__(self, path):
        try:
            from cuda.bindings import driver
        except ImportError as error:
            raise OSError(f"the package cuda.bindings is missing: {error}") from error
        self.driver, self.lib = driver, _library(path)
        for name in ("plan_bytes", "parameter_bytes", "workspace", "counter_bytes"):
            getattr(self.lib, "codetta_host_gpu_" + name).restype = ctypes.c_int64
        for name in ("sizes", "spaces", "product", "needs_fit", "grid", "finish", "uses_maps", "map", "check_b", "fault"):
            getattr(self.lib, "codetta_host_gpu_" + name).restype = ctypes.c_bool
        self.lib.codetta_host_gpu_packing.restype = ctypes.c_void_p
        for name in ("step_bytes", "put", "move", "look"):
            getattr(self.lib, "codetta_host_gpu_" + name).restype = ctypes.c_int64
        for name in ("launch", "cooperative", "size", "map"):
            getattr(self.lib, "codetta_host_gpu_user_" + name).restype = ctypes.c_bool
        self.contexts, self.primary, self.lock = {}, None, threading.Lock()
        _cu("Failed to start the driver", driver.cuInit(0))

    def context(self):
        """That of this thread; the primary one of device 0 where it has none, which stays current."""
        driver = self.driver
        handle = int(_cu("Failed to ask for the context", driver.cuCtxGetCurrent()))
        with self.lock:
            if handle == 0:
                if self.primary is None:
                    device = _cu("Failed to find device 0", driver.cuDeviceGet(0))
                    self.primary = _cu("Failed to retain device 0", driver.cuDevicePrimaryCtxRetain(device))
                _cu("Failed to enter device 0", driver.cuCtxSetCurrent(self.primary))
                handle = int(self.primary)
            if handle not in self.contexts:
                self.contexts[handle] = _Context(self)
        return self.contexts[handle]

    def kernel(self, context, index):
        with self.lock:
            if index not in context.kernels:
                with _Relaxed(self.driver):
                    context.kernels[index] = _Loaded(self, index)
        return context.kernels[index]


def _loaded(path, kernels):
    global _engine
    with _lock:
        if _engine is None:
            _engine = _GpuEngine(path)
    return _engine


_now = threading.local()  # .call: the call that this thread is in


class _Call:
    """One call: its stream, the memory that goes back to the stream's pool at its end, and the work that is enqueued
    once all of it is planned: a call that is refused has enqueued nothing, but for what a predicate or a size that is
    read from the device, or a function of the caller's, had to have in front."""

    def __init__(self, stream):
        self.engine = _loaded(ENGINE, KERNELS)
        self.stream = 0 if stream is None else int(getattr(stream, "cuda_stream", stream))
        self.context, self.allocated, self.work, self.began = self.engine.context(), [], [], False
        self.looking = False
        self.shared = {}  # by device of the program: address and bytes of what its launches need while they run

    def __enter__(self):
        _now.call = self
        if _LOOKED:
            _tell_fault(self)
        return self

    def __exit__(self, kind, error, _):
        if kind is not None and issubclass(kind, HostError) and self.began:
            error.unaligned = False  # what is enqueued may have written
        for address in self.allocated:
            self.engine.driver.cuMemFreeAsync(address, self.stream)
        _now.call = None

    def enqueue(self, what, function, *arguments, keep=None):
        """Later, in this order; keep: what the arguments point into."""
        self.work.append((what, function, arguments, keep))

    def enqueue_all(self):
        work, self.work = self.work, []
        self.began = self.began or bool(work)
        for what, function, arguments, _ in work:
            _cu(what, function(*arguments))

    def scratch(self, count, place=0):
        """What a launch on `place` needs while it runs: they run one after the other, and share the largest so far."""
        address, size = self.shared.get(place, (0, 0))
        if size < count:
            self.shared[place] = address, _ = self.allocate(count), count
        return address

    def allocate(self, count):
        address = int(_cu(f"{count} bytes could not be allocated",
                          self.engine.driver.cuMemAllocAsync(count, self.stream)))
        self.allocated.append(address)
        return address


def _memory(count, alignment):
    if count < 0 or count >= 1 << 62:
        _fail(f"E0603: the size of a temporary overflows: {count} bytes")
    return _Array(_now.call.allocate(max(count, 256)), np.uint8, (count,), (1,))


def _view(memory, offset, dtype, shape, strides=None, name=""):
    strides = _row_major(shape) if strides is None else strides
    size = np.dtype(_DTYPES[dtype]).itemsize
    need = _span(dtype, shape, strides)
    have = 0 if memory.size == 0 else sum((n - 1) * s for n, s in zip(memory.shape, memory.strides)) + memory.itemsize
    if offset < 0 or min(shape, default=0) < 0 or (need > 0 and offset + need > have):
        _fail(f"E0610: {name} does not fit: it takes {need} bytes from byte {offset} on, and {have} are there")
    if need > 0 and (memory.data + offset) % size != 0:
        _fail(f"E0605: {name} is misaligned")
    return _Array(memory.data + offset, _DTYPES[dtype], shape, [stride * size for stride in strides])


# What frameworks call types that numpy lacks; they travel as unsigned integers of their size, or as bytes, too.
_FURTHER = {9: ("float8_e4m3fn", "void8"), 10: ("float8_e5m2", "void8"), 12: ("bfloat16", "void16")}


def _form(array, what):
    """(address, name of the elements' type, their bytes, shape, strides in bytes, whether it is read-only)"""
    if isinstance(array, _Array):  # that _result made
        return array.data, array.kind, array.itemsize, array.shape, array.strides, False
    if hasattr(array, "data_ptr"):
        size = array.element_size()
        kind = str(array.dtype).rpartition(".")[2]  # "torch.float32"
        return array.data_ptr(), kind, size, tuple(array.shape), [s * size for s in array.stride()], False
    if hasattr(array, "__cuda_array_interface__"):
        form = array.__cuda_array_interface__
        kind, shape = np.dtype(form["typestr"]), tuple(form["shape"])
        strides = form.get("strides") or [s * kind.itemsize for s in _row_major(shape)]
        address, read_only = form["data"]
        return address, kind.name if kind.isnative else kind.str, kind.itemsize, shape, strides, read_only
    _fail(f"E0610: {what} a {type(array).__name__}, and has to be a tensor in device memory")


def _bound(array, name, dtype, rank, written):
    address, kind, size, shape, strides, read_only = _form(array, f"{name} is")
    if written and read_only:
        _fail(f"E0213: {written} {name} is bound to read-only memory")
    passed = np.dtype(_DTYPES[dtype]).name
    if kind != passed and kind not in _FURTHER.get(dtype, ()):
        _fail(f"E0610: {name} is {kind}, and {_NAMES[dtype]} has to be passed as "
              f"{' or '.join((passed, *_FURTHER.get(dtype, ())[:1]))}")
    if any(stride % size for stride in strides):
        _fail(f"E0605: the strides of {name} are no multiples of its elements")
    array = _Array(address, _DTYPES[dtype], shape, strides)
    if array.size and address % size:
        _fail(f"E0605: {name} is misaligned")
    while array.ndim > rank and array.shape[0] == 1:
        array = _Array(address, array.dtype, array.shape[1:], array.strides[1:])
    while array.ndim < rank:
        array = _Array(address, array.dtype, (1,) + array.shape, (0,) + array.strides)
    if array.ndim != rank:
        _fail(f"E0610: {name} has {array.ndim} dims, and {rank} are wanted")
    return array


def _device_of(driver, context, here):
    """The device of memory of this context: cuda.bindings 13.3 tells the ordinal 0 of all memory. Memory without a
    context, of a pool, is taken for that of `here`, the device of the current context."""
    before = _cu("Failed to find the current context", driver.cuCtxGetCurrent())
    if int(context) in (0, int(before)):
        return here
    _cu("Failed to enter a context", driver.cuCtxSetCurrent(context))
    try:
        return int(_cu("Failed to find the context's device", driver.cuCtxGetDevice()))
    finally:
        driver.cuCtxSetCurrent(before)


def _placed(array, name):
    """The device can read it: its own memory, managed memory, or host memory that the driver knows."""
    if not array.size:
        return
    call, driver = _now.call, _now.call.engine.driver
    facts = [getattr(driver.CUpointer_attribute, "CU_POINTER_ATTRIBUTE_" + fact)
             for fact in ("MEMORY_TYPE", "IS_MANAGED", "DEVICE_ORDINAL", "CONTEXT")]
    kind, managed, device, context = _cu(f"Failed to ask where {name} lies",
                                         driver.cuPointerGetAttributes(len(facts), facts, array.data))
    if managed or int(kind) == 1:
        return
    here = int(call.context.device)
    device = int(device) or _device_of(driver, context, here)
    if int(kind) == 2 and device == here:
        return
    what = f"memory of device {device}" if int(kind) == 2 else "host memory that the device can not read"
    _fail(f"E0648: {name} does not lie on device {here}: its address {array.data:#x} is {what}")


def _constant(index):
    """The bytes of a constant in this context, uploaded when they are first needed there."""
    call = _now.call
    known = call.context.constants
    with call.engine.lock:
        if index not in known:
            with _Relaxed(call.engine.driver):
                known[index] = _uploaded(call.engine.driver, base64.b64decode(_CONSTANTS[index]))
    return known[index]


def _uploaded(driver, data):
    """On a stream of its own: the default stream would wait for one that is being captured."""
    address = int(_cu("Failed to allocate a constant", driver.cuMemAlloc(max(len(data), 1))))
    if data:
        stream = _cu("Failed to make a stream", driver.cuStreamCreate(1))
        try:
            _cu("Failed to upload a constant", driver.cuMemcpyHtoDAsync(address, data, len(data), stream))
        finally:
            waited = driver.cuStreamSynchronize(stream)
            driver.cuStreamDestroy(stream)
        _cu("Failed to upload a constant", waited)
    return _Array(address, np.uint8, (len(data),), (1,))


def _side_by_side(array, name):
    """Elements of the last dim; a program whose kernels do not rely on it takes over where they are not."""
    if array.size and array.shape[-1] > 1 and _stride(array, -1) != 1:
        _fail(f"E0610: {name} must be contiguous in its last dimension: its stride there is {_stride(array, -1)}", True)


def _is_contiguous(array):
    return not array.size or all(n == 1 or s == w * array.itemsize
                                 for n, s, w in zip(array.shape, array.strides, _row_major(array.shape)))


def _contiguous(array, name, what):
    if not _is_contiguous(array):
        _fail(f"E0614: {name} is {what}: only contiguous tensors are on a GPU")


# Steps on elements: launches of one kernel of the program (device/host/gpu_steps.h).

def _fault_word(call):
    """Of this context: (address, what lies there)."""
    with call.engine.lock:
        if call.context.fault is None:
            with _Relaxed(call.engine.driver):
                address = int(_cu("Failed to allocate host memory", call.engine.driver.cuMemHostAlloc(
                    ctypes.sizeof(_Fault), 3)))  # portable, mapped
            ctypes.memset(address, 0, ctypes.sizeof(_Fault))
            call.context.fault = address
    return call.context.fault


def _tell_fault(call):
    """Fails where a kernel of an earlier call has found something wrong."""
    found = _Fault()
    if not call.engine.lib.codetta_host_gpu_fault(ctypes.c_void_p(_fault_word(call)), ctypes.byref(found)):
        return
    name = _LOOKED[found.step + found.which]
    if found.size < 0:
        what = "NaN" if found.value == 1 else "an infinity"
        _fail(f"E0619: {name} holds {what}; it stands {found.offset} elements behind the first, in an earlier call")
    index = found.value + (1 << 64) if found.huge else found.value
    _fail(f"E0618: index {index} is out of range for the size {found.size}; it stands {found.offset} elements "
          f"behind the first of {name}, in an earlier call")


def _step_view(array, name, dtype):
    ranked = ctypes.c_int64 * 8
    return _StepView(name.encode(), array.data, dtype, array.ndim, ranked(*array.shape),
                     ranked(*(stride // array.itemsize for stride in array.strides)))


def _step_trouble(trouble):
    _fail(f"E0{trouble.code}: {trouble.headline.decode()}: {trouble.reason.decode()}", trouble.unaligned)


def _launch_step(kernel, entry, blocks, parameters):
    call = _now.call
    if blocks == 0:
        return
    loaded = call.engine.kernel(call.context, kernel)
    values = (ctypes.c_void_p * 1)(ctypes.addressof(parameters))
    config = _configuration(call.engine, loaded, loaded.keep[0][entry], (blocks, 1, 1), [], call.stream)
    call.enqueue(f"Failed to launch kernel {loaded.name}", call.engine.driver.cuLaunchKernelEx, config,
                 loaded.functions[entry], ctypes.addressof(values), 0, keep=(values, parameters))


def _put(kernel, target, indices, values, dim, how, number):
    """target, values: (array, name, dtype); indices: a list of those. dim < 0: index_put. number < 0: not checked."""
    call = _now.call
    lib, trouble, wide = call.engine.lib, _Trouble(), ctypes.c_int64()
    views = (_StepView * len(indices))(*(_step_view(*index) for index in indices))
    parameters = ctypes.create_string_buffer(lib.codetta_host_gpu_step_bytes())
    fault = ctypes.c_void_p(_fault_word(call) if number >= 0 else None)

    def plan(memory):
        return lib.codetta_host_gpu_put(
            ctypes.byref(_step_view(*target)), views, len(indices), ctypes.byref(_step_view(*values)), dim, how,
            ctypes.c_void_p(memory), fault, ctypes.c_uint64(max(number, 0)), parameters, ctypes.byref(wide),
            ctypes.byref(trouble))

    blocks = plan(None)
    if blocks < 0:
        _step_trouble(trouble)
    if wide.value < 0:
        _fail("E0603: the size of the workspace overflows")
    if wide.value:
        blocks = plan(call.scratch(wide.value))
    _launch_step(kernel, 0, blocks, parameters)


def _move(kernel, to, source, bits):
    """A copy of views of any strides, or without source a fill."""
    lib, trouble = _now.call.engine.lib, _Trouble()
    parameters = ctypes.create_string_buffer(lib.codetta_host_gpu_step_bytes())
    views = ctypes.byref(_step_view(*to)), None if source is None else ctypes.byref(_step_view(*source))
    blocks = lib.codetta_host_gpu_move(*views, ctypes.c_uint64(bits), parameters, ctypes.byref(trouble))
    if blocks < 0:
        _step_trouble(trouble)
    _launch_step(kernel, 1, blocks, parameters)


def _copy_elements(kernel, source, target):
    if _is_contiguous(source[0]) and _is_contiguous(target[0]):
        _copy(source[0], target[0], source[1])
    else:
        _move(kernel, target, source, 0)


def _fill_elements(kernel, target, bits):
    size = target[0].itemsize
    if _is_contiguous(target[0]) and len(set(bits.to_bytes(8, "little")[:size])) == 1:
        _fill(target[0], bits)
    else:
        _move(kernel, target, None, bits)


def _look(kernel, view, looks, limit, number):
    call = _now.call
    parameters = ctypes.create_string_buffer(call.engine.lib.codetta_host_gpu_step_bytes())
    blocks = call.engine.lib.codetta_host_gpu_look(
        ctypes.byref(_step_view(*view)), looks, ctypes.c_int64(limit), ctypes.c_void_p(_fault_word(call)),
        ctypes.c_uint64(number), parameters)
    _launch_step(kernel, 2, blocks, parameters)


def _copy(source, target, name):
    if source.size != target.size or source.dtype != target.dtype:
        _fail(f"E0610: {name} does not fit: it is {list(source.shape)}, and {list(target.shape)} is wanted")
    _contiguous(source, name, "copied")
    _contiguous(target, name, "copied to")
    if source.size and source.data != target.data:
        call = _now.call
        call.enqueue("Failed to copy a tensor", call.engine.driver.cuMemcpyDtoDAsync, target.data, source.data,
                     source.size * source.itemsize, call.stream)


def _fill(array, bits):
    _contiguous(array, "a tensor", "filled")
    if array.size:
        call = _now.call
        call.enqueue("Failed to fill a tensor", call.engine.driver.cuMemsetD8Async, array.data, bits & 0xFF,
                     array.size * array.itemsize, call.stream)


def _flag(array, name):
    """One bool of device memory; waits for the stream."""
    driver, value = _now.call.engine.driver, bytearray(1)
    _not_captured(_now.call, f"a branch can not be captured: {name} is read on the host to decide what runs")
    _now.call.enqueue_all()
    _cu("Failed to read a predicate", driver.cuMemcpyDtoHAsync(value, array.data, 1, _now.call.stream))
    _cu("Failed to wait for the stream", driver.cuStreamSynchronize(_now.call.stream))
    return value[0] != 0


def _integer(array, name):
    """The one integer of a tensor in device memory; waits for the stream."""
    call = _now.call
    driver, value = call.engine.driver, bytearray(array.itemsize)
    _not_captured(call, f"a call whose sizes are found in it can not be captured: {name} is read from device memory")
    call.enqueue_all()
    _cu("Failed to read a size", driver.cuMemcpyDtoHAsync(value, array.data, array.itemsize, call.stream))
    _cu("Failed to wait for the stream", driver.cuStreamSynchronize(call.stream))
    return int(np.frombuffer(bytes(value), array.dtype)[0])


# Functions of the caller's enqueue on the stream that they get, and take and give tensors in device memory; numbers are
# arrays of numpy's.

def _call_out(externs, name, inputs, outputs):
    _now.call.enqueue_all()
    code = externs[name](inputs, outputs, _now.call.stream)
    if code:
        _fail(f"E0617: external function {name} failed: it returned {code}")


def _call_alloc(externs, name, inputs, count):
    call = _now.call
    _not_captured(call, f"a call whose sizes are found in it can not be captured: {name} allocates what follows uses")
    call.enqueue_all()
    results = externs[name](inputs, call.stream)
    if not isinstance(results, (list, tuple)) or len(results) != count:
        _fail(f"E0617: external function {name} failed: {count} tensors are wanted")
    return [_result(array, name) for array in results]


def _result(array, name):
    """A tensor of the function's as it lies, which is kept until nothing needs it."""
    address, kind, size, shape, strides, _ = _form(array, f"{name} gives")
    result = _Array(address, f"u{size}", shape, strides, kind)
    result.owner = array
    return result


def _seen(array, dims):
    return _Array(array.data, array.dtype, [size for _, _, size in dims], _seen_strides(array, dims))


def _factor(array, transposed, batch, rows, cols, name):
    if transposed:
        array = array.swapped()
    have = int(np.prod(array.shape[:-2], dtype=np.int64))
    _evenly_spaced((array, name))
    if array.shape[-2:] != (rows, cols) or have not in (1, batch):
        _fail(f"E0610: {name} does not fit: the product takes [{rows}, {cols}] in a batch of {batch}")
    return array


def _factor_of(array, name, is_a):
    k, other = (-1, -2) if is_a else (-2, -1)
    batches = int(np.prod(array.shape[:-2], dtype=np.int64))
    stride, skip, inner = _items(array) or (0, 0, 0)
    return _Factor(name.encode(), array.data, stride, _stride(array, other), _stride(array, k), skip, inner, batches,
                   array.shape[other], array.shape[k], array.size == 0)


def _attributes(engine, loaded, entry, context):
    """A cluster, and that the kernel may begin before the one in front ends: it waits for that itself."""
    driver, result = engine.driver, []
    cluster = loaded.table.cluster_m * loaded.table.cluster_n
    if entry.kind == 0 and cluster > 1:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = cluster, 1, 1
        result.append(attribute)
    if context.major >= 9:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        result.append(attribute)
    return result


def _configuration(engine, loaded, entry, blocks, attributes, stream):
    config = engine.driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = blocks
    config.blockDimX, config.blockDimY, config.blockDimZ = entry.threads, 1, 1
    config.sharedMemBytes, config.hStream = entry.shared_bytes, stream
    config.attrs, config.numAttrs = attributes, len(attributes)
    return config


def _fit(engine, context, loaded, i, entry):
    """How many clusters (blocks, where there are none) the device holds at once."""
    if i not in loaded.fits:
        cluster = loaded.table.cluster_m * loaded.table.cluster_n
        if cluster > 1:
            config = _configuration(engine, loaded, entry, (cluster, 1, 1),
                                    _attributes(engine, loaded, entry, context)[:1], 0)
            loaded.fits[i] = _cu("Failed to ask how many clusters fit",
                                 engine.driver.cuOccupancyMaxActiveClusters(loaded.functions[i], config))
        else:
            loaded.fits[i] = context.limits.multiprocessors * _cu(
                "Failed to ask how many blocks fit", engine.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    loaded.functions[i], entry.threads, entry.shared_bytes))
    return loaded.fits[i]


class _Looking:
    """In front of what a call computes sizes by, or decides by: launches behind that are planned and not enqueued. They
    fail where the program whose kernels rely on less may take the call; what no other one takes is told when they run."""

    def __enter__(self):
        _now.call.looking = True

    def __exit__(self, kind, error, _):
        _now.call.looking = False
        return kind is not None and issubclass(kind, HostError) and not error.unaligned


def _lies(address, dtype, shape, strides):
    """A temporary as it will lie."""
    if min(shape, default=0) < 0:
        _fail("E0603: the size of a temporary is negative")
    size = np.dtype(_DTYPES[dtype]).itemsize
    return _Array(address, _DTYPES[dtype], shape, [stride * size for stride in strides])


def _tiled(engine, loaded, plan, which, operand, name):
    call, address, trouble = _Tiled(), ctypes.c_uint64(), _Trouble()
    if not engine.lib.codetta_host_gpu_map(ctypes.byref(loaded.table), plan, which, operand, name.encode(),
                                           ctypes.byref(call), ctypes.byref(address), ctypes.byref(trouble)):
        if trouble.code == 649:
            _fail(f"E0649: Failed to initialize the TMA descriptor of {name}: {trouble.reason.decode()}",
                  trouble.unaligned)
        _step_trouble(trouble)
    return call, address


def _encode(engine, loaded, plan, i, which, operand, name, parameters):
    call, address = _tiled(engine, loaded, plan, which, operand, name)
    d = engine.driver
    made = _cu(f"Failed to initialize the TMA descriptor of {name}", d.cuTensorMapEncodeTiled(
        d.CUtensorMapDataType(call.dtype), 3, address.value, [d.cuuint64_t(n) for n in call.sizes],
        [d.cuuint64_t(n) for n in call.strides], [d.cuuint32_t(n) for n in call.box],
        [d.cuuint32_t(n) for n in call.steps], d.CUtensorMapInterleave(call.interleave),
        d.CUtensorMapSwizzle(call.swizzle), d.CUtensorMapL2promotion(call.l2_promotion),
        d.CUtensorMapFloatOOBfill(call.fill)))
    ctypes.memmove(ctypes.addressof(parameters) + 128 * i, made.getPtr(), 128)


def _launch_gpu(engine, index, sizes, chunk, a, b, operands, scalars, more_b=(), widths=()):
    """One kernel of the program: (batch, m, n, k), factors with their names (None: made by the kernel, or a map's),
    operands as the tables above have them with names behind, numbers; the B of further products, which are among the
    operands; the columns of each product where these differ."""
    call, lib = _now.call, engine.lib
    loaded = engine.kernel(call.context, index)
    kernel, trouble = ctypes.byref(loaded.table), _Trouble()
    plan = ctypes.create_string_buffer(lib.codetta_host_gpu_plan_bytes())

    def check(good):
        if not good:
            _step_trouble(trouble)

    why = ctypes.byref(trouble)
    given = [ctypes.c_int64(n) for n in (*sizes, chunk)]
    if widths:
        each = (ctypes.c_int64 * len(widths))(*widths)
        check(lib.codetta_host_gpu_spaces(kernel, *given, each, len(widths), plan, why))
    else:
        check(lib.codetta_host_gpu_sizes(kernel, *given, plan, why))
    factors = [_factor_of(*f, f is a) if f is not None else _Factor() for f in (a, b)]
    references = ctypes.byref(factors[0]), ctypes.byref(factors[1])
    for further in more_b:
        check(lib.codetta_host_gpu_check_b(kernel, ctypes.byref(_factor_of(*further, False)), why))
    empty, zero = 0 in sizes[:3], False
    table, nothing = (_Operand * max(len(operands), 1))(), (ctypes.c_bool * max(len(operands), 1))()
    for i, (array, indexed, terms, offsets, gathered, written, name) in enumerate(operands):
        _entry(table[i], array, indexed, terms, offsets, gathered)
        nothing[i] = _nowhere(array, table[i])
        if nothing[i] and not written:
            zero = True  # also where the root space is empty: what is the same everywhere is read then, too
            if gathered and not empty:
                _fail(f"E0618: elements of {name} are taken by indices, and it has none")
    if loaded.table.has_product:
        check(lib.codetta_host_gpu_product(kernel, *references, table, plan, why))
    if call.looking:
        for i in range(loaded.table.map_count if lib.codetta_host_gpu_uses_maps(kernel, plan) else 0):
            which = lib.codetta_host_gpu_encoded(kernel, plan, i)
            one = loaded.keep[1][which]
            if one.source >= 2:
                _tiled(engine, loaded, plan, which, ctypes.byref(table[one.operand]), operands[one.operand][6])
        return
    entries = loaded.keep[0]
    grids = (_Grid * max(loaded.table.entry_count, 1))()
    for i in range(loaded.table.entry_count):
        fit = 0
        if lib.codetta_host_gpu_needs_fit(kernel, i, plan):
            fit = _fit(engine, call.context, loaded, i, entries[i])
        check(lib.codetta_host_gpu_grid(kernel, i, ctypes.byref(call.context.limits), ctypes.c_int64(fit), plan,
                                        ctypes.byref(grids[i]), why))
    reserved = (ctypes.c_int64 * (2 * max(loaded.table.reduction_count, 1)))()
    check(lib.codetta_host_gpu_finish(kernel, zero, plan, reserved, why))
    scratch = lib.codetta_host_gpu_workspace(plan)
    workspace = call.scratch(scratch) if scratch else 0
    counters = lib.codetta_host_gpu_counter_bytes(plan)
    if counters:
        call.enqueue("Failed to clear counters", engine.driver.cuMemsetD8Async, workspace, 0, counters, call.stream)
    numbers = (_Scalar * max(len(scalars), 1))()
    for value, (kind, number) in zip(numbers, scalars):
        setattr(value, kind, number)
    raw = ctypes.create_string_buffer(lib.codetta_host_gpu_parameter_bytes(kernel) + 64)
    parameters = (ctypes.c_char * (len(raw) - 64)).from_buffer(raw, -ctypes.addressof(raw) % 64)
    lib.codetta_host_gpu_resolve(kernel, *references, ctypes.c_void_p(workspace), plan)
    for i in range(loaded.table.map_count if lib.codetta_host_gpu_uses_maps(kernel, plan) else 0):
        which = lib.codetta_host_gpu_encoded(kernel, plan, i)
        one = loaded.keep[1][which]
        name = a[1] if one.source == 0 else b[1] if one.source == 1 else operands[one.operand][6]
        _encode(engine, loaded, plan, i, which, ctypes.byref(table[one.operand]) if one.source >= 2 else None, name,
                parameters)
    lib.codetta_host_gpu_write(kernel, plan, table, nothing, numbers, reserved, ctypes.c_void_p(workspace), parameters)
    for i in range(loaded.table.entry_count):
        if grids[i].skipped:
            continue
        value = lib.codetta_host_gpu_packing(plan) if grids[i].packs else ctypes.addressof(parameters)
        values = (ctypes.c_void_p * 1)(value)
        config = _configuration(engine, loaded, entries[i], tuple(grids[i].blocks),
                                _attributes(engine, loaded, entries[i], call.context), call.stream)
        call.enqueue(f"Failed to launch kernel {loaded.name}", engine.driver.cuLaunchKernelEx, config,
                     loaded.functions[i], ctypes.addressof(values), 0, keep=(values, parameters, plan))
