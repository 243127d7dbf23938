# SPDX-License-Identifier: Apache-2.0
# The loss of a classifier's last layer, and its gradients: the scores are one product, whose rows give the loss and what
# comes back to the layer; two more products give what comes back to its input and to its weights.
def cross_entropy(h: f32["m", 128], w: f32[500, 128], label: i64["m"]):
    scores = h @ transpose(w)
    log_sum = logsumexp(scores, dim=-1)
    loss = mean(log_sum - gather(scores, label[:, None], dim=1))
    is_label = cast(arange(500) == label[:, None], f32)
    d_scores = (exp(scores - log_sum) - is_label) / sum(ones(m))
    d_h = d_scores @ w
    d_w = transpose(d_scores) @ h
    return loss, d_h, d_w
