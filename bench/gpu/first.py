# SPDX-License-Identifier: Apache-2.0
"""Two of the questions that the design of the GPU kernels began with, answered on one H100 or H200 in less than a minute.
Usage: first.py BRIDGE.so [--only f,h]

f  how many clusters of 1, 2, 4, 8 and 16 blocks are active at once, of blocks that have a multiprocessor each.
h  clock and power of the multiprocessors while products of one type run for 2.5 seconds, and what share of the tensor cores' rate they reach
   at that clock."""
import ctypes
import statistics
import threading
import time

import torch

import suite

RATES = {torch.bfloat16: 4096, torch.float32: 2048, torch.int8: 8192, suite.E4M3: 8192}  # operations a clock of a multiprocessor; tf32 of f32
PROBE = b""".version 8.0
.target sm_90
.address_size 64
.visible .entry probe() { ret; }
"""


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]


class Launch(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


def active_clusters():
    torch.zeros(1, device="cuda")
    driver = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        status = getattr(driver, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} gives {status}")

    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), PROBE)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"probe")
    shared = 200 << 10
    call("cuFuncSetAttribute", function, 8, shared)  # the most dynamic shared memory
    call("cuFuncSetAttribute", function, 14, 1)  # clusters of more than 8
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    for size in (1, 2, 4, 8, 16):
        cluster = Attribute(id=4)  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        cluster.value[0], cluster.value[1], cluster.value[2] = size, 1, 1
        launch = Launch((ctypes.c_uint * 3)(size * 132, 1, 1), (ctypes.c_uint * 3)(384, 1, 1), shared, None, ctypes.pointer(cluster), 1)
        count = ctypes.c_int()
        call("cuOccupancyMaxActiveClusters", ctypes.byref(count), function, ctypes.byref(launch))
        print(f"f: clusters of {size}: {count.value} of {blocks // size}, {count.value * size} of {blocks} multiprocessors", flush=True)


class Clock:
    """What the management library says of the device every 20 ms."""

    def __init__(self):
        self.code = ctypes.CDLL("libnvidia-ml.so.1")
        self.code.nvmlInit_v2()
        self.device = ctypes.c_void_p()
        identity = str(torch.cuda.get_device_properties(0).uuid)
        if self.code.nvmlDeviceGetHandleByUUID(("GPU-" + identity.removeprefix("GPU-")).encode(), ctypes.byref(self.device)):
            self.code.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))
        self.samples, self.ends = [], threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        clock, power = ctypes.c_uint(), ctypes.c_uint()
        while not self.ends.wait(0.02):
            self.code.nvmlDeviceGetClockInfo(self.device, 1, ctypes.byref(clock))
            self.code.nvmlDeviceGetPowerUsage(self.device, ctypes.byref(power))
            self.samples.append((clock.value, power.value / 1000))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def sustained_clocks(bridge):
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    for number in (1, 39, 40, 19):
        row = next(row for row in suite.ROWS if row.number == number)
        case = suite.Case(row)
        handles = [bridge.prepare(case, t) for t in case.sets]
        name, _ = bridge.describe(handles[0])
        graph = suite.graph_of(lambda i, handles=handles: bridge.run(handles[i]), case.copies)
        seconds, times = 2.5, []
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with Clock() as clock:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                begin.record()
                for _ in range(8):
                    graph.replay()
                end.record()
                end.synchronize()
                times.append(begin.elapsed_time(end) * 1e3 / 8 / case.copies)
        late = clock.samples[len(clock.samples) // 2:]
        us, mhz, watts = statistics.median(times[len(times) // 2:]), statistics.median(x for x, _ in late), statistics.median(x for _, x in late)
        rate = 2 * row.m * row.n * row.k / us * 1e-6
        share = rate * 1e12 / (mhz * 1e6 * sms * RATES[row.dtype])
        print(f"h: row {number}, {suite.NAMES[row.dtype]} {row.m} x {row.n} x {row.k} {row.epilogue}, {name}: {us:.1f} us, {rate:.0f} T/s, {mhz:.0f} MHz, {watts:.0f} W, {100 * share:.1f} % of the rate", flush=True)


def main():
    parser = suite.parser_of_rows()
    parser.add_argument("--only", default="f,h")
    options = parser.parse_args()
    bridge, _ = suite.start(options)
    print(f"{torch.cuda.get_device_name()}, {time.strftime('%Y-%m-%d')}", flush=True)
    wanted = options.only.split(",")
    if "f" in wanted:
        active_clusters()
    if "h" in wanted:
        sustained_clocks(bridge)


if __name__ == "__main__":
    main()
