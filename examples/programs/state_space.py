# SPDX-License-Identifier: Apache-2.0
# A selective state space layer, as Mamba has it: a short convolution along the sequence, then a state of 8 numbers a
# channel, which forgets and takes in as much as each input says. The loop carries the state and the outputs so far.
def more(t, length, state, y, step, u, inward, outward, decay):
    return t < length

def turn(t, length, state, y, step, u: f32["b", "l", "c"], inward, outward, decay):
    now = step[:, t, :, None]
    kept = exp(now * decay) * state + now * u[:, t, :, None] * inward[:, t, None]
    seen = sum(kept * outward[:, t, None], dim=-1, keepdim=False)
    return t + 1, length, kept, index_put(y, t, seen, dim=1), step, u, inward, outward, decay

def state_space(
    x: f32["b", "l", 32],
    w_in: f32[32, 128],
    kernel: f32[3, 64],
    w_select: f32[64, 24],
    w_step: f32[8, 64],
    step_bias: f32[64],
    log_decay: f32[64, 8],
    skip: f32[64],
    w_out: f32[64, 32],
):
    u, gate = split(x @ w_in, 2)
    past = concat(zeros(b, 2, 64), u, dim=1)
    mixed = silu(past[:, :l] * kernel[0] + past[:, 1:l + 1] * kernel[1] + past[:, 2:] * kernel[2])
    rank, inward, outward = split(mixed @ w_select, 3)
    step = softplus(rank @ w_step + step_bias)
    length = sum(ones(l, dtype=i64), keepdim=False)
    _, _, state, seen, _, _, _, _, _ = while_loop(
        more, turn, cast(0, i64), length, zeros(b, 64, 8), zeros(b, l, 64), step, mixed, inward, outward, -exp(log_decay)
    )
    y = ((seen + mixed * skip) * silu(gate)) @ w_out
    return y, state
