# SPDX-License-Identifier: Apache-2.0
"""How good the cost model's pick is: every kernel that discovery offers for a row of suite.py, timed in turn with the others and with
PyTorch's product. Usage: sweep.py BRIDGE.so [--rows 1,2,...] [--seconds S] [--jobs J] [--check] [--only TEXT] [--show N]
[--tune N]

With --tune what `tune` finds with N candidates, variants that discovery does not list among them, is timed beside the others. The last line counts the rows whose first kernel is within 5 % of the fastest, and whose four first hold one within 2 %."""
import concurrent.futures
import sys
import time

import torch

import suite


def main():
    parser = suite.parser_of_rows()
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--check", action="store_true", help="hold each kernel's results against float64")
    parser.add_argument("--only", default="")
    parser.add_argument("--show", type=int, default=12)
    parser.add_argument("--tune", type=int, default=0)
    options = parser.parse_args()
    bridge, wanted = suite.start(options)
    rows = first_good = four_good = 0
    for row in suite.ROWS:
        if not wanted(row.number):
            continue
        case = suite.Case(row)
        case.draw(bridge)
        kernels = [(kernel, us) for kernel, us in bridge.kernels(case, case.sets[0]) if options.only in kernel]
        estimated, tuned, took_tuning = dict(kernels), "", 0.0
        if options.tune:
            before = time.monotonic()
            handle = bridge.prepare(case, case.sets[0], candidates=options.tune)
            took_tuning = time.monotonic() - before
            tuned, _ = bridge.describe(handle)
            bridge.code.bridge_release(handle)
        handles, errors = {}, {}
        names = list(dict.fromkeys([kernel for kernel, _ in kernels] + [tuned] * (tuned != "")))

        def prepare(kernel):
            return [bridge.prepare(case, t, only=kernel) for t in case.sets]

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            made = {kernel: pool.submit(prepare, kernel) for kernel in names}
        for kernel, result in made.items():
            if result.exception():
                errors[kernel] = " ".join(str(result.exception()).split())[:100]
            else:
                handles[kernel] = result.result()
        wrong = {}
        for kernel in list(handles):
            try:
                if options.check:
                    case.poison()
                    bridge.run(handles[kernel][0])
                    torch.cuda.synchronize()
                    error = case.check()
                    if not error < {torch.bfloat16: 2e-2, suite.E4M3: 7e-2}.get(row.dtype, 2e-3):
                        wrong[kernel] = error
            except RuntimeError as problem:
                errors[kernel] = " ".join(str(problem).split())[:100]
                del handles[kernel]
        rounds = suite.rounds_of(lambda i: case.product(case.sets[i]), case.copies)
        graphs = {kernel: suite.graph_of(lambda i, held=held: bridge.run(held[i]), case.copies, rounds) for kernel, held in handles.items()}
        graphs["cuBLAS alone"] = suite.graph_of(lambda i: case.product(case.sets[i]), case.copies, rounds)
        took = suite.measure(graphs, case.copies * rounds, options.seconds, least=12)
        own = sorted(((us, kernel) for kernel, us in took.items() if kernel in estimated))
        order = [kernel for kernel, _ in kernels if kernel in took]
        best, pick = own[0][0], took[order[0]]
        rows += 1
        first_good += pick <= 1.05 * best
        four_good += min(took[kernel] for kernel in order[:4]) <= 1.02 * best
        print(f"row {row.number}: {row.m} x {row.n} x {row.k} {suite.NAMES[row.dtype]} {row.epilogue}: cuBLAS alone {took['cuBLAS alone']:.2f}, "
              f"best {own[0][1]} {best:.2f}, pick {order[0]} {pick:.2f} ({pick / best:.3f} of the best)")
        if tuned in took:
            print(f"    tuned over {options.tune} in {took_tuning:.1f} s: {tuned} {took[tuned]:.2f} ({took[tuned] / pick:.3f} of the pick, {took[tuned] / best:.3f} of the best listed)"
                  + ("" if tuned in estimated else ", not listed"))
        for us, kernel in own[:options.show]:
            note = f"  WRONG {wrong[kernel]:.1e}" if kernel in wrong else ""
            print(f"    {us:9.2f} us, estimated {estimated[kernel]:9.2f} (place {order.index(kernel) + 1:2d})  {kernel}{note}")
        for kernel, error in list(errors.items()) + [(kernel, f"wrong by {error:.1e}") for kernel, error in wrong.items()]:
            print(f"    FAILED {kernel}: {error}")
        sys.stdout.flush()
        for held in handles.values():
            for handle in held:
                bridge.code.bridge_release(handle)
        del graphs, case
        torch.cuda.empty_cache()
    print(f"{rows} rows: the first is within 5 % of the best in {first_good}, one of the first four within 2 % in {four_good}")


if __name__ == "__main__":
    sys.exit(main())
