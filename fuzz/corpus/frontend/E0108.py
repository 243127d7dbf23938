def f(accum):
    D = relu(accum)
	return D