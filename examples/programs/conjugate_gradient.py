# SPDX-License-Identifier: Apache-2.0
# Solves A x = b by conjugate gradients, for a symmetric and positive definite A. The loop carries x, the residual r, the
# direction p and r's square; A and the limits stay where they are, and what changes is updated in place.
# Its bound grows with each turn, so a check proves something for a few: --scalar most=2 --scalar tolerance=0 --check.
def unfinished(i, x, r, p, square, A, tolerance, most):
    return (i < most) & (square > tolerance)

def turn(i, x, r, p, square, A, tolerance, most):
    q = A @ p
    step = square / sum(p * q)
    rest = r - step * q
    left = sum(rest * rest)
    return i + 1, x + step * p, rest, rest + (left / square) * p, left, A, tolerance, most

def conjugate_gradient(A: f32["n", "n"], b: f32["n", 1], tolerance: f32, most: i32):
    turns, x, _, _, left, _, _, _ = while_loop(unfinished, turn, 0, zeros(n, 1), b, b, sum(b * b), A, tolerance, most)
    return x, turns, left
