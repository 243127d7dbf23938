# SPDX-License-Identifier: Apache-2.0
# ---- several devices: device 0 is that of the call, each further one has its context, a stream and memory of that
#
# Events alone order them: a call begins behind what its stream had to do, a copy between two devices waits and is waited
# for as the compiler says, and the stream goes on when all have ended.

_further = []  # ordinals of devices 1, 2, ..., where the caller has set them


def set_further_devices(ordinals):
    """Which GPUs devices 1, 2, ... of the program are, by the driver's ordinals, from the next call on; device 0 is that
    of a call's context. An ordinal may be there several times, and be that of device 0, so that the program runs on one
    GPU. []: the ordinals that follow that of device 0. 0, or -1 with the text in get_last_error()."""
    global _further
    if init() != 0:
        return -1
    try:
        ordinals = [int(ordinal) for ordinal in ordinals]
        total = int(_cu("Failed to count the devices", _engine.driver.cuDeviceGetCount()))
        for ordinal in ordinals:
            if not 0 <= ordinal < total:
                _fail(f"E0701: {ordinal} is no ordinal of a GPU, of which there are {total}")
        _further = ordinals
        return 0
    except HostError as error:
        _last.text = str(error)
    except (TypeError, ValueError) as error:
        _last.text = f"E0701: ordinals of GPUs are a list of integers: {error}"
    return -1


class _DeviceSet:
    """The streams of further devices and the events of all, which one call at a time uses."""

    def __init__(self, call):
        driver, self.caller, self.handles = call.engine.driver, call.stream, [one.handle for one in call.devices]
        self.events, self.streams = [], []
        try:
            for d in range(len(self.handles)):
                call.enter(d)
                self.events.append(_cu("Failed to make an event", driver.cuEventCreate(2)))  # no timing
                self.streams.append(call.stream if d == 0 else _cu("Failed to make a stream", driver.cuStreamCreate(1)))
        except HostError:
            for event in self.events:
                driver.cuEventDestroy(event)
            for stream in self.streams[1:]:
                driver.cuStreamDestroy(stream)
            raise


class _OneDevice:
    """A device of a call: its context, as the module keeps it, and its stream."""

    def __init__(self, handle, context):
        self.handle, self.context, self.stream = handle, context, 0


class _DevicesCall(_Call):
    """A call of a program of several devices. The context of the thread is its own again behind it."""

    sets = []  # at rest

    def __init__(self, stream, count):
        super().__init__(stream)
        driver = self.engine.driver
        self.current = self.listed = 0  # the device that steps are at, and at which the list of work begins
        self.set, self.forked = None, 1  # of devices that begin behind the call's stream
        first = int(self.context.device)
        ordinals = _further or list(range(first + 1, first + count))
        total = int(_cu("Failed to count the devices", driver.cuDeviceGetCount()))
        if len(ordinals) < count - 1:
            _fail(f"E0642: too few GPUs: the program uses {count} devices, and set_further_devices() has named "
                  f"{len(ordinals)} beside the first; name {count - 1}, of which one may be there several times, or none "
                  "for those that follow the first")
        if not _further and first + count > total:
            _fail(f"E0642: too few GPUs: the program uses {count} devices, and from device {first} on there are "
                  f"{total - first}; name others, or one several times, with set_further_devices()")
        handle = int(_cu("Failed to ask for the context", driver.cuCtxGetCurrent()))
        self.devices = [_OneDevice(handle, self.context)]
        try:
            for ordinal in ordinals[:count - 1]:
                self.devices.append(self.devices[0] if ordinal == first else self.further(ordinal))
            self.devices[1:] = [_OneDevice(one.handle, one.context) for one in self.devices[1:]]
            self.devices[0].stream = self.stream
            self.take_set()
        finally:
            self.enter(0)

    def further(self, ordinal):
        """The primary context of a device, which is retained for as long as the module is there."""
        engine = self.engine
        with engine.lock:
            primaries = engine.__dict__.setdefault("primaries", {})
            if ordinal not in primaries:
                device = _cu(f"Failed to find device {ordinal}", engine.driver.cuDeviceGet(ordinal))
                primaries[ordinal] = _cu(f"Failed to retain device {ordinal}",
                                         engine.driver.cuDevicePrimaryCtxRetain(device))
            handle = int(primaries[ordinal])
            _cu(f"Failed to enter device {ordinal}", engine.driver.cuCtxSetCurrent(primaries[ordinal]))
            if handle not in engine.contexts:
                engine.contexts[handle] = _Context(engine)
        return _OneDevice(handle, engine.contexts[handle])

    def in_capture(self, one):
        """Whether streams of a set are part of another stream's capture, as they are until that ends."""
        status, captures = self.engine.driver.cuStreamIsCapturing(one.streams[1])
        return int(status) != 0 or int(captures) != 0

    def take_set(self):
        handles = [one.handle for one in self.devices]
        with self.engine.lock:
            fitting = [one for one in self.sets if one.handles == handles]
            found = next((one for one in fitting if one.caller == self.stream), None)
            if found is None and len(self.sets) > 15:
                found = next((one for one in fitting if not self.in_capture(one)), None)
            if found is not None:
                found.caller = self.stream
                self.sets.remove(found)
                self.set = found
        if self.set is None:
            with _Relaxed(self.engine.driver):
                self.set = _DeviceSet(self)
        for one, stream in list(zip(self.devices, self.set.streams))[1:]:
            one.stream = stream

    def enter(self, device):
        """Makes the context of a device current, and nothing else."""
        _cu("Failed to enter a device", self.engine.driver.cuCtxSetCurrent(self.devices[device].handle))

    def at(self, device):
        """Steps are those of this device from here on, and so is the work that they enqueue."""
        self.current = device
        self.context, self.stream = self.devices[device].context, self.devices[device].stream
        self.enter(device)
        self.enqueue("Failed to enter a device", self.engine.driver.cuCtxSetCurrent, self.devices[device].handle)

    def ordered(self, earlier, later):
        """Calls of the driver behind which `later` begins when all that `earlier` has so far has ended."""
        driver, one, other = self.engine.driver, self.devices[earlier], self.devices[later]
        return [("Failed to enter a device", driver.cuCtxSetCurrent, one.handle),
                ("Failed to record an event", driver.cuEventRecord, self.set.events[earlier], one.stream),
                ("Failed to enter a device", driver.cuCtxSetCurrent, other.handle),
                ("Failed to wait for another device", driver.cuStreamWaitEvent, other.stream, self.set.events[earlier],
                 0)]

    def enqueue_order(self, earlier, later):
        for what, function, *arguments in self.ordered(earlier, later):
            self.enqueue(what, function, *arguments)

    def __enter__(self):
        _now.call = self
        try:
            for d in range(len(self.devices) if _LOOKED else 0):
                self.enter(d)
                self.context = self.devices[d].context
                _tell_fault(self)
            self.context = self.devices[0].context
            for d in range(1, len(self.devices)):
                for what, function, *arguments in self.ordered(0, d):
                    _cu(what, function(*arguments))
                self.forked = d + 1
            self.enter(0)
        except HostError:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind, error, _):
        driver = self.engine.driver
        if kind is not None and issubclass(kind, HostError) and self.began:
            error.unaligned = False  # what is enqueued may have written
        others, waits = range(1, self.forked), []
        if kind is not None:  # what was enqueued between two devices may lack its end
            waits = [self.ordered(d, 0) for d in others] + [self.ordered(0, d) for d in others]
        results = [(what, function(*arguments)) for one in waits for what, function, *arguments in one]  # all are tried
        for address, device in self.allocated:
            driver.cuCtxSetCurrent(self.devices[device].handle)
            driver.cuMemFreeAsync(address, self.devices[device].stream)
        # Last, so that nothing of other devices is behind it: a capture of the stream holds all of the call.
        joins = [self.ordered(d, 0) for d in others]
        results += [(what, function(*arguments)) for one in joins for what, function, *arguments in one]
        failed = next((one for one in results if int(one[1][0])), None)
        driver.cuCtxSetCurrent(self.devices[0].handle)
        with self.engine.lock:
            self.sets.append(self.set)
        _now.call = None
        if failed and kind is None:
            _cu(*failed)

    def enqueue_all(self):
        self.enter(self.listed)
        try:
            super().enqueue_all()
        finally:
            self.enter(self.current)
        self.listed = self.current

    def scratch(self, count, place=0):
        return super().scratch(count, self.current)

    def allocate(self, count):
        address = int(_cu(f"{count} bytes could not be allocated on device {self.current} of the program",
                          self.engine.driver.cuMemAllocAsync(count, self.stream)))
        self.allocated.append((address, self.current))
        return address


def _at(device):
    if _now.call.current != device:
        _now.call.at(device)


def _placed_on(device, array, name):
    _at(device)
    _placed(array, name)
    _at(0)


def _piece(view):
    """Memory of the current device for a tensor in one piece."""
    array, name, dtype = view
    memory = _now.call.allocate(max(array.size * array.itemsize, 256))
    return _Array(memory, array.dtype, array.shape, [s * array.itemsize for s in _row_major(array.shape)]), name, dtype


def _copy_between(kernel, source, first, target, second, waits=False, waited_for=False, follows=False):
    """From device `first` to device `second`, on the stream of the latter, which waits for the former in front; that one
    is waited for behind it. follows: `first` does not wait yet for a copy in front, and does where it has to gather
    elements. kernel: of steps on elements; None: there is none."""
    call, before = _now.call, _now.call.current
    if source[0].size != target[0].size or source[0].dtype != target[0].dtype:
        _fail(f"E0610: {source[1]} does not fit: it is {list(source[0].shape)}, and {list(target[0].shape)} is wanted")
    if kernel is None:
        _contiguous(source[0], source[1], "copied")
        _contiguous(target[0], target[1], "copied to")
    read, written = source, target
    if not _is_contiguous(source[0]):
        waits = True
        if follows:
            call.enqueue_order(second, first)
        _at(first)
        read = _piece(source)
        _move(kernel, read, source, 0)
    if not _is_contiguous(target[0]):
        _at(second)
        written = _piece(target)
    if waits:
        call.enqueue_order(first, second)
    call.at(second)
    if source[0].size:
        one, other = call.devices[first], call.devices[second]
        call.enqueue("Failed to copy a tensor to another device", call.engine.driver.cuMemcpyPeerAsync, written[0].data,
                     other.handle, read[0].data, one.handle, source[0].size * source[0].itemsize, other.stream)
    if written is not target:
        _move(kernel, target, written, 0)
    if waited_for:
        call.enqueue_order(second, first)
    call.at(before)
