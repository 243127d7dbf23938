# SPDX-License-Identifier: Apache-2.0
# An LSTM over time: one product for all inputs, then a loop whose product takes the gates and the state's update in its
# epilogue. A turn reads its inputs at t, and puts its hidden state at t of the outputs.
def more(t, steps, hidden, cell, outputs, inputs, w):
    return t < steps

def turn(t, steps, hidden, cell, outputs, inputs, w):
    i, f, g, o = split(take(inputs, t) + hidden @ w, 4)
    next_cell = sigmoid(f) * cell + sigmoid(i) * tanh(g)
    next_hidden = sigmoid(o) * tanh(next_cell)
    return t + 1, steps, next_hidden, next_cell, index_put(outputs, t, next_hidden), inputs, w

def lstm(x: f32["s", "b", 64], w_input: f32[64, 512], w_hidden: f32[128, 512], bias: f32[512], h: f32["b", 128], c: f32["b", 128]):
    inputs = x @ w_input + bias
    steps = sum(ones(s, dtype=i64), keepdim=False)
    _, _, hidden, cell, y, _, _ = while_loop(more, turn, 0, steps, h, c, zeros(s, b, 128), inputs, w_hidden)
    return y, hidden, cell
