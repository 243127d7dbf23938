# SPDX-License-Identifier: Apache-2.0
# A step of a U-Net over images [b, height, width, channels]: a convolution, the same at half the size, and one over both.
# A convolution is a product of nine shifted windows; its function is called with three sizes, which its types name.
def padded(x: f32["b", "h", "w", "c"]):
    rows = concat(zeros(b, 1, w, c), x, zeros(b, 1, w, c), dim=1)
    return concat(zeros(b, h + 2, 1, c), rows, zeros(b, h + 2, 1, c), dim=2)

def convolution(x: f32["b", "h", "w", "c"], kernel: f32["9*c", "o"], bias: f32["o"]):
    p = padded(x)
    above = concat(p[:, :h, :w], p[:, :h, 1:w + 1], p[:, :h, 2:], dim=3)
    beside = concat(p[:, 1:h + 1, :w], x, p[:, 1:h + 1, 2:], dim=3)
    below = concat(p[:, 2:, :w], p[:, 2:, 1:w + 1], p[:, 2:, 2:], dim=3)
    return relu(concat(above, beside, below, dim=3) @ kernel + bias)

def halved(x: f32["b", "2*h", "2*w", "c"]):
    blocks = reshape(x, (b, h, 2, w, 2, c))
    return squeeze(max(blocks, dim=(2, 4)), (2, 4))

def doubled(x: f32["b", "h", "w", "c"]):
    return reshape(expand(x[:, :, None, :, None], b, h, 2, w, 2, c), (b, 2 * h, 2 * w, c))

def unet(
    x: f32["b", "2*h", "2*w", 4],
    first: f32[36, 8],
    first_bias: f32[8],
    middle: f32[72, 16],
    middle_bias: f32[16],
    last: f32[216, 8],
    last_bias: f32[8],
    out: f32[8, 2],
):
    a = convolution(x, first, first_bias)
    low = convolution(halved(a), middle, middle_bias)
    y = sigmoid(convolution(concat(doubled(low), a, dim=3), last, last_bias) @ out)
    return y
