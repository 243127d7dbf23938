# SPDX-License-Identifier: Apache-2.0
# Both layers as one program: codetta run classifier.py --tensor x=held_out_images.npy --tensor w1=w1.npy ...
def classifier(x: f32["batch", 64], w1: f32[64, 128], b1: f32[128], w2: f32[128, 10], b2: f32[10]):
    hidden = relu(x @ w1 + b1)
    scores = hidden @ w2 + b2
    return scores
