# SPDX-License-Identifier: Apache-2.0
"""Prints a program of many operations, for measuring how long planning takes.
Usage: large_program.py KIND N > program.py     N: operations of chain and own (5 a layer), layers of the others
  chain       products of one weight, with element-wise work and a residual
  own         the same with a weight and a bias for each layer
  llama       blocks of one set of weights: norms, attention, SwiGLU
  llama_own   blocks with weights of their own
  attention   plain attentions, one behind the other
  norm        products with a norm and a residual behind each
  reductions  one product with N reductions behind it
  factors     N products of one weight, whose As are made of one input
  branches    products with a branch behind each"""
import sys

CHAIN = ("x: f32[\"b\", 64], w: f32[64, 64], c: f32[64]", ["{x} = relu({h} @ w + c) * 0.5 + {h}"])
OWN = ("x: f32[\"b\", 64]", ["{x} = relu({h} @ w{i} + c{i}) * 0.5 + {h}"], "w{i}: f32[64, 64], c{i}: f32[64]")
WEIGHTS = ("wq{i}: bf16[1024, 1024], wk{i}: bf16[1024, 1024], wv{i}: bf16[1024, 1024], wo{i}: bf16[1024, 1024], "
           "wg{i}: bf16[1024, 2816], wu{i}: bf16[1024, 2816], wd{i}: bf16[2816, 1024]")
BLOCK = ["n{i} = cast(rms_norm({h}), bf16)",
         *(f"{name}{{i}} = permute(reshape(cast(n{{i}} @ w{name}{{w}}, bf16), (b, s, 16, 64)), (0, 2, 1, 3))" for name in "qkv"),
         "t{i} = cast(q{i} @ transpose(k{i}), bf16) * 0.125",
         "z{i} = cast(cast(softmax(t{i}, dim=-1), bf16) @ v{i}, bf16)",
         "a{i} = cast(reshape(permute(z{i}, (0, 2, 1, 3)), (b, s, 1024)) @ wo{w}, bf16) + {h}",
         "m{i} = cast(rms_norm(a{i}), bf16)",
         "g{i} = cast(silu(m{i} @ wg{w}) * (m{i} @ wu{w}), bf16)",
         "{x} = cast(g{i} @ wd{w}, bf16) + a{i}"]
TOKENS = "x: bf16[\"b\", \"s\", 1024]"
KINDS = {
    "chain": CHAIN,
    "own": OWN,
    "llama": (TOKENS + ", " + WEIGHTS.format(i=""), [line.replace("{w}", "") for line in BLOCK]),
    "llama_own": (TOKENS, [line.replace("{w}", "{i}") for line in BLOCK], WEIGHTS),
    "attention": ("x: bf16[\"s\", 512]", ["t{i} = cast({h} @ transpose({h}), bf16) * 0.125",
                                          "{x} = cast(cast(softmax(t{i}, dim=-1), bf16) @ {h}, bf16)"]),
    "norm": ("x: bf16[\"s\", 512], w: bf16[512, 512]", ["{x} = cast(rms_norm({h} @ w) + {h}, bf16)"]),
    "reductions": ("x: f32[\"s\", 512], w: f32[512, 512]", ["{x} = {h} + sum((x @ w) * {i}.5, dim=-1)"]),
    "factors": ("x: f32[\"s\", 512], w: f32[512, 512]", ["{x} = {h} + (x * {i}.5) @ w"]),
    "branches": ("x: f32[\"s\", 512], w: f32[512, 512]", ["t{i} = {h} @ w", "{x} = cond(max(t{i}) > 0.0, less, more, t{i}, {h})"]),
}


FUNCTIONS = """def less(t, h):
    return relu(t) + h
def more(t, h):
    return t * 0.5 - h
"""


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS or not sys.argv[2].isdigit():
        raise SystemExit(__doc__)
    parameters, layer, *own = KINDS[sys.argv[1]]
    layers = int(sys.argv[2]) // (5 if sys.argv[1] in ("chain", "own") else 1)
    if sys.argv[1] == "branches":
        print(FUNCTIONS, end="")
    print(f"def net({', '.join([parameters, *(text.format(i=i) for text in own for i in range(layers))])}):")
    for i in range(layers):
        for line in layer:
            print("    " + line.format(i=i, h="x" if i == 0 else f"h{i}", x=f"h{i + 1}"))
    print("    return " + ("x" if layers == 0 else f"h{layers}"))


if __name__ == "__main__":
    main()
