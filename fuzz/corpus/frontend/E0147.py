def relu_aux_store(accum):
    D = relu(accum)
    return D