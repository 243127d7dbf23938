# SPDX-License-Identifier: Apache-2.0
"""Trains the two-layer digit classifier of the demo with plain NumPy and writes its data and weights beside this file.

Needs numpy and scikit-learn (for the data set only): pip install numpy scikit-learn; python3 train.py
The result is the same on every run of one NumPy build: the split, the initialization and the batches have fixed seeds.
"""
import pathlib
import sys

import numpy as np
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "python"))
from codetta_dtypes import write_npy, write_safetensors  # noqa: E402

HIDDEN, CLASSES, HELD_OUT, EPOCHS, BATCH = 128, 10, 360, 150, 64


def forward(images, layers):
    """The two fused products of the demo: D = relu(accum + bias), then D = accum + bias."""
    hidden = np.maximum(images @ layers["w1"] + layers["b1"], 0)
    return hidden, hidden @ layers["w2"] + layers["b2"]


def train(images, labels, rng):
    layers = {"w1": rng.standard_normal((64, HIDDEN)) * np.sqrt(2 / 64), "b1": np.zeros(HIDDEN),
              "w2": rng.standard_normal((HIDDEN, CLASSES)) * np.sqrt(1 / HIDDEN), "b2": np.zeros(CLASSES)}
    first = {name: np.zeros_like(v) for name, v in layers.items()}
    second = {name: np.zeros_like(v) for name, v in layers.items()}
    step = 0
    for epoch in range(EPOCHS):
        rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        order = rng.permutation(len(images))
        for begin in range(0, len(images), BATCH):
            pick = order[begin:begin + BATCH]
            x, target = images[pick], np.eye(CLASSES)[labels[pick]] * 0.9 + 0.1 / CLASSES
            hidden, scores = forward(x, layers)
            probability = np.exp(scores - scores.max(axis=1, keepdims=True))
            probability /= probability.sum(axis=1, keepdims=True)
            gradient = (probability - target) / len(x)
            back = (gradient @ layers["w2"].T) * (hidden > 0)
            gradients = {"w1": x.T @ back, "b1": back.sum(0), "w2": hidden.T @ gradient, "b2": gradient.sum(0)}
            step += 1
            for name, g in gradients.items():  # Adam (Kingma and Ba, 2015) with decoupled weight decay
                first[name] = 0.9 * first[name] + 0.1 * g
                second[name] = 0.999 * second[name] + 0.001 * g * g
                update = (first[name] / (1 - 0.9**step)) / (np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8)
                layers[name] -= rate * (update + 0.02 * layers[name])
    return {name: v.astype(np.float32) for name, v in layers.items()}


def main():
    digits = load_digits()
    rng = np.random.default_rng(20)
    order = rng.permutation(len(digits.data))
    pixels, labels = digits.data[order].astype(np.uint8), digits.target[order].astype(np.int64)
    split = len(pixels) - HELD_OUT
    scaled = (pixels / 16.0).astype(np.float32)
    layers = train(scaled[:split].astype(np.float64), labels[:split], rng)

    for name, part in (("train", slice(0, split)), ("held_out", slice(split, None))):
        accuracy = np.mean(forward(scaled[part], layers)[1].argmax(axis=1) == labels[part])
        print(f"{name}: {len(labels[part])} digits, accuracy {accuracy:.4f}")
    write_npy(HERE / "train_pixels.npy", pixels[:split], "u8")
    write_npy(HERE / "train_labels.npy", labels[:split].astype(np.uint8), "u8")
    write_npy(HERE / "held_out_images.npy", scaled[split:], "f32")
    write_npy(HERE / "held_out_labels.npy", labels[split:].astype(np.uint8), "u8")
    for name, array in layers.items():
        write_npy(HERE / f"{name}.npy", array, "f32")
    write_safetensors(HERE / "digits.safetensors", {name: (array, "f32") for name, array in layers.items()})


if __name__ == "__main__":
    main()
