# SPDX-License-Identifier: Apache-2.0
# ---- kernels of the user's: launches as their sources say them, checked by the rules of device/host/user_launch.h and
# ---- user_maps.h before the driver sees them

class _UserShape(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_int64 * 3), ("block", ctypes.c_int64 * 3), ("cluster", ctypes.c_int32 * 3),
                ("shared", ctypes.c_int64)] + [(n, ctypes.c_bool) for n in ("cooperative", "programmatic", "maps")]


class _UserLimits(ctypes.Structure):
    _fields_ = [("device", ctypes.c_char_p), ("max_grid", ctypes.c_int64 * 3), ("max_block", ctypes.c_int64 * 3)] + [
        (n, ctypes.c_int32) for n in ("max_threads", "static_shared", "shared_bytes", "major")] + [
        ("cooperative", ctypes.c_bool), ("window_bytes", ctypes.c_int64), ("tensor_maps", ctypes.c_bool),
        ("most_threads", ctypes.c_int64)]


class _UserMap(ctypes.Structure):
    _fields_ = [("im2col", ctypes.c_bool), ("argument", ctypes.c_int32), ("box", ctypes.c_int32 * 5),
                ("steps", ctypes.c_int32 * 5), ("lower", ctypes.c_int32 * 3), ("upper", ctypes.c_int32 * 3)] + [
        (n, ctypes.c_int32) for n in ("channels", "pixels", "swizzle", "interleave", "promotion")] + [
        ("nan_outside", ctypes.c_bool)]


class _UserMapView(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_uint8), ("address", ctypes.c_uint64),
                ("rank", ctypes.c_int32), ("size", ctypes.c_int64 * 8), ("stride", ctypes.c_int64 * 8)]


class _UserMapArguments(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("dtype", "interleave", "swizzle", "promotion", "fill")] + [
        ("rank", ctypes.c_uint32), ("sizes", ctypes.c_uint64 * 5), ("strides", ctypes.c_uint64 * 4),
        ("box", ctypes.c_uint32 * 5), ("steps", ctypes.c_uint32 * 5), ("lower", ctypes.c_int * 3),
        ("upper", ctypes.c_int * 3), ("channels", ctypes.c_uint32), ("pixels", ctypes.c_uint32)]


class _UserHook(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int32) for n in ("position", "first", "arguments", "sizes")]


def _bits(value, dtype):
    """What a number is passed as: an integer of the bytes of its type."""
    return int.from_bytes(_scalar_array(value, dtype).tobytes(), "little")


def _tiled(argument, box, steps=(1,) * 5, **how):
    """A tensor map that stands for a value; box and steps from the fastest dim on."""
    return _UserMap(argument=argument, box=(ctypes.c_int32 * 5)(*box), steps=(ctypes.c_int32 * 5)(*steps), **how)


def _im2col(argument, lower, upper, channels, pixels, steps=(1,) * 5, **how):
    """Corners of the spatial dims, from the fastest on."""
    corners = ctypes.c_int32 * 3
    return _UserMap(im2col=True, argument=argument, lower=corners(*lower), upper=corners(*upper), channels=channels,
                    pixels=pixels, steps=(ctypes.c_int32 * 5)(*steps), **how)


def _written(array, dim, stride, name):
    """Of an output that a kernel writes where it lies, as a temporary does; another program serves other ones."""
    if array.size and array.shape[dim] > 1 and array.ctypes.data % 16:
        _fail(f"E0610: {name} must be aligned to 16 bytes: its address is {array.ctypes.data % 16} modulo 16", True)
    _has_stride(array, dim, stride, name, True)


def _written_at(array, unit, name):
    """Of one that the copy engine writes."""
    _aligned(array, unit, name, True)


def _user_limits(call, loaded):
    """What the device and the function allow; each is asked for once."""
    driver, context = call.engine.driver, call.context
    with call.engine.lock:
        if context.user is None:
            context.user = _UserLimits(
                context.name, context.limits.max_grid,
                (ctypes.c_int64 * 3)(*(context.fact("MAX_BLOCK_DIM_" + axis) for axis in "XYZ")),
                shared_bytes=context.fact("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"), major=context.major,
                cooperative=bool(context.fact("COOPERATIVE_LAUNCH")),
                window_bytes=context.fact("MAX_ACCESS_POLICY_WINDOW_SIZE"),
                tensor_maps=bool(context.fact("TENSOR_MAP_ACCESS_SUPPORTED")))
        if loaded.user is None:
            attribute = driver.CUfunction_attribute
            loaded.user = [_cu("Failed to ask for a fact of a kernel", driver.cuFuncGetAttribute(fact, loaded.functions[0]))
                           for fact in (attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                        attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)]
    limits = _UserLimits.from_buffer_copy(context.user)
    limits.max_threads, limits.static_shared = loaded.user
    return limits


def _sixty_four(values, name):
    for value in values:
        if not -1 << 63 <= value < 1 << 63:
            _fail(f"E0610: a size of the launch of {name} has no value: {value} takes more than 64 bits")


def _allow(call, loaded, shape, blocks):
    """Attributes of the function that the launch needs; shared memory is only ever raised."""
    driver, function = call.engine.driver, loaded.functions[0]
    attribute = driver.CUfunction_attribute
    with call.engine.lock:
        if shape.shared > loaded.allowed:
            _cu(f"Failed to set the allowed dynamic shared memory size to {shape.shared}", driver.cuFuncSetAttribute(
                function, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shape.shared))
            loaded.allowed = shape.shared
        if blocks > 8:  # what every device with clusters can launch
            _cu("Failed to allow large clusters", driver.cuFuncSetAttribute(
                function, attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))


def _user_attributes(driver, shape, major, window):
    """window: (address, bytes, part of the accesses), or None."""
    result = []

    def add(name):
        attribute = driver.CUlaunchAttribute()
        attribute.id = getattr(driver.CUlaunchAttributeID, "CU_LAUNCH_ATTRIBUTE_" + name)
        result.append(attribute)
        return attribute.value

    if tuple(shape.cluster) != (1, 1, 1):
        cluster = add("CLUSTER_DIMENSION").clusterDim
        cluster.x, cluster.y, cluster.z = shape.cluster
    if shape.cooperative:
        add("COOPERATIVE").cooperative = 1
    if shape.programmatic and major >= 9:  # before, kernels of a stream follow each other in any case
        add("PROGRAMMATIC_STREAM_SERIALIZATION").programmaticStreamSerializationAllowed = 1
    if window is not None:
        policy = add("ACCESS_POLICY_WINDOW").accessPolicyWindow
        policy.base_ptr, policy.num_bytes, policy.hitRatio = window
        policy.hitProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_PERSISTING
        policy.missProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_STREAMING
    return result


def _user_configuration(driver, shape, attributes, stream):
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = shape.block
    config.sharedMemBytes, config.hStream = shape.shared, stream
    config.attrs, config.numAttrs = attributes, len(attributes)
    return config


def _held(call, loaded, shape, blocks):
    """How many blocks the device holds at once."""
    driver, function = call.engine.driver, loaded.functions[0]
    if blocks > 1:
        config = _user_configuration(driver, shape, _user_attributes(driver, shape, call.context.major, None), 0)
        return blocks * _cu("Failed to ask how many clusters fit",
                            driver.cuOccupancyMaxActiveClusters(function, config))
    return call.context.limits.multiprocessors * _cu(
        "Failed to ask how many blocks fit", driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            function, math.prod(shape.block), shape.shared))


def _encode_user(call, wanted, array, name, dtype, place):
    """The map of a tensor, to the 128 bytes at `place`."""
    asked, trouble, ranked = _UserMapArguments(), _Trouble(), ctypes.c_int64 * 8
    view = _UserMapView(name.encode(), dtype, array.data, array.ndim, ranked(*reversed(array.shape)),
                        ranked(*(_stride(array, dim) for dim in reversed(range(array.ndim)))))
    if not call.engine.lib.codetta_host_gpu_user_map(ctypes.byref(wanted), ctypes.byref(view), ctypes.byref(asked),
                                                     ctypes.byref(trouble)):
        _step_trouble(trouble)
    d, rank = call.engine.driver, asked.rank
    tensor = (d.CUtensorMapDataType(asked.dtype), rank, array.data,
              [d.cuuint64_t(n) for n in asked.sizes[:rank]],
              [d.cuuint64_t(n) for n in asked.strides[:max(rank - 1, 1)]])
    steps = [d.cuuint32_t(n) for n in asked.steps[:rank]]
    how = (d.CUtensorMapInterleave(asked.interleave), d.CUtensorMapSwizzle(asked.swizzle),
           d.CUtensorMapL2promotion(asked.promotion), d.CUtensorMapFloatOOBfill(asked.fill))
    if wanted.im2col:
        made = d.cuTensorMapEncodeIm2col(*tensor, list(asked.lower[:rank - 2]), list(asked.upper[:rank - 2]),
                                         asked.channels, asked.pixels, steps, *how)
    else:
        made = d.cuTensorMapEncodeTiled(*tensor, [d.cuuint32_t(n) for n in asked.box[:rank]], steps, *how)
    ctypes.memmove(place, _cu(f"Failed to initialize the TMA descriptor of {name}", made).getPtr(), 128)


def _window_of(values, window, limits):
    """The part of L2 that the launch keeps: no more than the tensor and the device have."""
    which, wanted, per_mille = window
    array = values[which][0]
    if not array.size:
        return None
    extent = sum((size - 1) * max(stride, 0) for size, stride in zip(array.shape, array.strides)) + array.itemsize
    count = min(wanted, extent, limits.window_bytes)
    return (array.data, count, per_mille / 1000) if count > 0 and per_mille > 0 else None


def _launch_own(engine, index, values, launch):
    """A kernel of the user's. values: numbers as _bits gives them, and tensors: (array, name, dtype, whether it is a
    result); launch(): what the source says about it, as _launch_as takes it. Where no result has elements there is no
    launch."""
    call = _now.call
    if not any(value[3] and value[0].size for value in values if not isinstance(value, int)):
        return
    loaded = engine.kernel(call.context, index)
    _launch_as(call, loaded, values, **launch())


def _launch_as(call, loaded, values, grid, block, shared=0, cluster=(1, 1, 1), cooperative=False, programmatic=False,
               sizes=(), maps=(), window=None, hook=None):
    """sizes: (bits, value), behind the values; maps: each stands for one of the values; window: (which value, bytes,
    per mille of the accesses); hook: (which parameter, its first value, how many of these, and of the last sizes)."""
    lib, driver, name, trouble = call.engine.lib, call.engine.driver, loaded.name.encode(), _Trouble()

    def check(good):
        if not good:
            _step_trouble(trouble)

    _sixty_four((*grid, *block, shared, *(size for _, size in sizes), window[1] if window else 0), loaded.name)
    why, three = ctypes.byref(trouble), ctypes.c_int64 * 3
    shape = _UserShape(three(*grid), three(*block), (ctypes.c_int32 * 3)(*cluster), shared, cooperative, programmatic,
                       len(maps) > 0)
    limits = _user_limits(call, loaded)
    check(lib.codetta_host_gpu_user_launch(name, ctypes.byref(shape), ctypes.byref(limits), why))
    blocks = math.prod(cluster)
    _allow(call, loaded, shape, blocks)
    if cooperative:
        held = ctypes.c_int64(_held(call, loaded, shape, blocks))
        check(lib.codetta_host_gpu_user_cooperative(name, ctypes.byref(shape), held, limits.device, why))
    # Each value and size in 8 bytes, of which the kernel takes as many as its parameter has; then what is passed is told
    # by address.
    slots = (ctypes.c_uint64 * max(len(values) + len(sizes), 1))(
        *(value if isinstance(value, int) else value[0].data for value in values))
    for i, (bits, size) in enumerate(sizes):
        place = ctypes.c_uint64.from_buffer(slots, 8 * (len(values) + i))
        check(lib.codetta_host_gpu_user_size(name, i, ctypes.c_int64(size), ctypes.c_bool(bits == 32), ctypes.byref(place), why))
    parameters = (ctypes.c_void_p * (len(slots) + 1))(*(ctypes.addressof(slots) + 8 * i for i in range(len(slots))))
    raw = ctypes.create_string_buffer(128 * len(maps) + 64)
    place = ctypes.addressof(raw) + -ctypes.addressof(raw) % 64
    for i, wanted in enumerate(maps):
        _encode_user(call, wanted, *values[wanted.argument][:3], place + 128 * i)
        parameters[wanted.argument] = place + 128 * i
    handed = _UserHook(*(hook or (-1, 0, 0, 0)))
    block_of_hook = (ctypes.c_uint64 * max(handed.arguments + handed.sizes, 1))()
    lib.codetta_host_gpu_user_parameters(ctypes.byref(handed), len(values), len(sizes), slots, block_of_hook, parameters)
    attributes = _user_attributes(driver, shape, limits.major, window and _window_of(values, window, limits))
    call.enqueue(f"Failed to launch kernel {loaded.name}", driver.cuLaunchKernelEx,
                 _user_configuration(driver, shape, attributes, call.stream), loaded.functions[0],
                 ctypes.addressof(parameters), 0, keep=(slots, raw, block_of_hook, parameters))
