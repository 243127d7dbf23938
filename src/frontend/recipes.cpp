// SPDX-License-Identifier: Apache-2.0
#include "frontend/recipes.hpp"

namespace codetta::frontend {
namespace {

constexpr bool everywhere = true;

constexpr Recipe recipes[] = {
    // elements
    {"add", "x + y", everywhere},
    {"sub", "x - y", everywhere},
    {"mul", "x * y", everywhere},
    {"div", "x / y", everywhere},
    {"neg", "-x", everywhere},
    {"square", "x * x", everywhere},
    {"remainder", "x % y", everywhere},
    {"mod", "x % y", everywhere},
    {"fmod", "x - trunc(x / y) * y", everywhere},
    {"lerp", "x + (y - x) * t", everywhere},
    {"hypot", "sqrt(x * x + y * y)", everywhere},
    {"log10", "log(x) * 0.4342944819032518", everywhere},
    {"tan", "sin(x) / cos(x)", everywhere},
    {"sinh", "(exp(x) - exp(-x)) * 0.5", everywhere},
    {"cosh", "(exp(x) + exp(-x)) * 0.5", everywhere},
    {"logit", "log(x / (1 - x))", everywhere},
    {"log_sigmoid", "-softplus(-x)", everywhere},
    {"logsigmoid", "-softplus(-x)", everywhere},
    {"softsign", "x / (1 + abs(x))", everywhere},
    {"selu", "1.0507009873554805 * elu(x, alpha=1.6732632423543772)", everywhere},
    {"prelu", "where(x > 0, x, x * weight)", everywhere},
    {"isnan", "x != x", everywhere},
    {"isinf", "abs(x) == inf", everywhere},
    {"isfinite", "abs(x) < inf", everywhere},
    {"logical_not", "~x", everywhere},
    {"logical_and", "x & y", everywhere},
    {"logical_or", "x | y", everywhere},
    {"logical_xor", "x ^ y", everywhere},
    {"masked_fill", "where(mask, value, x)", everywhere},
    // reductions
    {"any", "max(cast(x, i32), dim=-1) > 0", everywhere},
    {"all", "min(cast(x, i32), dim=-1) > 0", everywhere},
    {"norm", "sqrt(sum_of_squares(x, dim=-1))", everywhere},
    {"var", "mean(c * c, dim=-1), with c = x - mean(x, dim=-1)", everywhere},
    {"std", "sqrt(mean(c * c, dim=-1)), with c = x - mean(x, dim=-1)", everywhere},
    {"mse_loss", "mean((x - y) * (x - y))"},
    {"nll_loss", "mean(-gather(x, label[:, None], dim=1))"},
    {"cross_entropy", "mean(logsumexp(x, dim=-1) - gather(x, label[:, None], dim=1))"},
    {"cosine_similarity", "sum(x * y, dim=-1) * rsqrt(sum(x * x, dim=-1) * sum(y * y, dim=-1))"},
    {"trace", "sum(where(arange(n) == arange(n)[:, None], x, 0.0))"},
    // places
    {"argmin", "min(where(x <= min(x, dim=-1), arange(n), 2**62), dim=-1)"},
    {"topk",
     "min(where(x >= max(x, dim=-1), arange(n), 2**62), dim=-1), and the same of where(x >= max(x, dim=-1), -inf, "
     "x)"},
    {"sort",
     "the largest ones one by one: max(x, dim=-1), and the same of where(x >= max(x, dim=-1), -inf, x); or "
     "call_extern"},
    {"one_hot", "cast(arange(n) == x[:, None], f32)"},
    {"eye", "cast(arange(n) == arange(n)[:, None], f32)"},
    {"diag", "sum(where(arange(n) == arange(n)[:, None], x, 0.0), dim=-1)"},
    {"tril", "where(arange(n) <= arange(n)[:, None], x, 0.0)"},
    {"triu", "where(arange(n) >= arange(n)[:, None], x, 0.0)"},
    {"bincount", "scatter(zeros(n), x, ones(m), reduce=\"sum\")"},
    {"flip", "take(x, max(arange(n), dim=0) - arange(n), dim=...)"},
    {"roll", "concat(x[k:], x[:k], dim=0)"},
    {"diff", "x[1:] - x[:-1]"},
    // shapes
    {"flatten", "reshape(x, (n, -1))"},
    {"ravel", "reshape(x, (-1,))"},
    {"expand_dims", "unsqueeze(x, 0), or x[:, None]"},
    {"movedim", "permute(x, (1, 0, 2)), with all dims in the new order"},
    {"stack", "concat(unsqueeze(x, 0), unsqueeze(y, 0), dim=0)"},
    {"pad", "concat(zeros(n, 1), x, zeros(n, 1), dim=1)"},
    {"repeat", "concat(x, x, dim=0), or reshape(expand(x[None], 4, n, 8), (4 * n, 8))"},
    {"tile", "concat(x, x, dim=0), or reshape(expand(x[None], 4, n, 8), (4 * n, 8))"},
    {"repeat_interleave", "reshape(expand(x[:, None], n, 4, 8), (4 * n, 8))"},
    {"zeros_like", "zeros(n, 64), with the sizes of its type"},
    {"ones_like", "ones(n, 64), with the sizes of its type"},
    {"full_like", "full(value, n, 64), with the sizes of its type"},
    {"empty", "zeros(n, 64)"},
    {"linspace", "start + step * cast(arange(n), f32)"},
    {"len", "n, the size that the type of the parameter names: x: f32[\"n\", 64]"},
    {"shape", "n, the size that the type of the parameter names: x: f32[\"n\", 64]"},
    {"size", "n, the size that the type of the parameter names: x: f32[\"n\", 64]"},
    {"numel", "sizes that the type of the parameter names, as n * 64 of x: f32[\"n\", 64]"},
    // layers
    {"linear", "x @ transpose(w) + b"},
    {"addmm", "x + a @ b"},
    {"baddbmm", "x + a @ b"},
    {"outer", "x[:, None] * y[None, :]"},
    {"glu", "a * sigmoid(b), with a, b = split(x, 2)"},
    {"batch_norm", "(x - center) * rsqrt(variance + eps) * weight + bias"},
    {"group_norm",
     "c * rsqrt(mean(c * c, dim=-1) + eps), with c = g - mean(g, dim=-1) of g = reshape(x, (b, groups, -1))"},
    {"conv1d", "a product of shifted slices, concat(x[:, :-2], x[:, 1:-1], x[:, 2:], dim=-1) @ w"},
    {"conv2d",
     "a product of the patches, reshape(permute(reshape(x, ...), ...), (b, -1, k)) @ w, or of shifted slices"},
    {"max_pool2d", "max(reshape(x, (b, h, 2, w, 2, c)), dim=(2, 4)) of x: f32[\"b\", \"2*h\", \"2*w\", \"c\"]"},
    {"avg_pool2d", "mean(reshape(x, (b, h, 2, w, 2, c)), dim=(2, 4)) of x: f32[\"b\", \"2*h\", \"2*w\", \"c\"]"},
    {"interpolate",
     "reshape(expand(x[:, :, None, :, None], b, h, 2, w, 2, c), (b, 2 * h, 2 * w, c)) of x: f32[\"b\", \"h\", \"w\", "
     "\"c\"]"},
};

}  // namespace

std::span<const Recipe> all_recipes() { return recipes; }

std::string_view recipe_for(std::string_view name, bool program) {
  for (const Recipe& recipe : recipes) {
    if (recipe.name == name && (program || recipe.everywhere)) return recipe.text;
  }
  return {};
}

}  // namespace codetta::frontend
