def mlp(x: bf16["batch", 4096], w: bf16[4096, "n"], alpha: f32):
    h = relu(x @ w * alpha)
    D = transpose(matmul(h, transpose(w)))
    return D, h
