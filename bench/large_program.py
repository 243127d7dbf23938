# SPDX-License-Identifier: Apache-2.0
"""Prints a program of many operations, for measuring how long planning takes.
Usage: large_program.py chain|llama N > program.py     N: operations of a chain (5 a layer), layers of a Llama"""
import sys

CHAIN = ("x: f32[\"b\", 64], w: f32[64, 64], c: f32[64]", ["{x} = relu({h} @ w + c) * 0.5 + {h}"])
LLAMA = ("x: bf16[\"b\", \"s\", 1024], wq: bf16[1024, 1024], wk: bf16[1024, 1024], wv: bf16[1024, 1024], wo: bf16[1024, 1024], "
         "wg: bf16[1024, 2816], wu: bf16[1024, 2816], wd: bf16[2816, 1024]",
         ["n{i} = cast(rms_norm({h}), bf16)",
          *(f"{name}{{i}} = permute(reshape(cast(n{{i}} @ w{name}, bf16), (b, s, 16, 64)), (0, 2, 1, 3))" for name in "qkv"),
          "t{i} = cast(q{i} @ transpose(k{i}), bf16) * 0.125",
          "z{i} = cast(cast(softmax(t{i}, dim=-1), bf16) @ v{i}, bf16)",
          "a{i} = cast(reshape(permute(z{i}, (0, 2, 1, 3)), (b, s, 1024)) @ wo, bf16) + {h}",
          "m{i} = cast(rms_norm(a{i}), bf16)",
          "g{i} = cast(silu(m{i} @ wg) * (m{i} @ wu), bf16)",
          "{x} = cast(g{i} @ wd, bf16) + a{i}"])


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("chain", "llama") or not sys.argv[2].isdigit():
        raise SystemExit(__doc__)
    (parameters, layer), layers = (CHAIN, int(sys.argv[2]) // 5) if sys.argv[1] == "chain" else (LLAMA, int(sys.argv[2]))
    print(f"def net({parameters}):")
    for i in range(layers):
        for line in layer:
            print("    " + line.format(i=i, h="x" if i == 0 else f"h{i}", x=f"h{i + 1}"))
    print("    return " + ("x" if layers == 0 else f"h{layers}"))


if __name__ == "__main__":
    main()
