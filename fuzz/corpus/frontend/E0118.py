def f(accum, C):
    D = torch.relu(accum + C)
    return D