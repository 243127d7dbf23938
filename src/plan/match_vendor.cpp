// SPDX-License-Identifier: Apache-2.0
// Whether an EpilogueProgram is an entry of cuBLASLt's menu: activation(alpha * accum + beta * C + bias), in this order
// of rounding. What is nearly one is none.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "plan/vendor.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

using package::Access;
using package::CudaVendorConfig;
using package::EpilogueProgram;
using package::Inst;
using package::Operand;
using types::Op;
using Activation = CudaVendorConfig::Activation;

constexpr const char* menu_text = "the library's menu has alpha, beta * C, a bias along N and relu";

constexpr const char* inexact =
    "gelu of the library is off by up to 5e-6 and 0 where 1 + tanh cancels, which is more than gelu may be here";

class Matcher {
 public:
  Matcher(const EpilogueProgram& program, const GemmShape& shape, const VendorTraits& traits)
      : p_(program), shape_(shape), traits_(traits), phase_(program.phases[0]) {}

  VendorMatch match() {
    if (p_.split.ways != 1) return fail("it does not split columns");
    if (!p_.reductions.empty() || p_.phases.size() != 1) return fail("it has no reductions of results");
    if (phase_.stores.empty() || phase_.stores.size() > 2)
      return fail(fmt::format("it stores {} matrices, and the library one, or two with gelu", phase_.stores.size()));
    // Of two stores, D is the one that the other's value leads to.
    const bool second = phase_.stores.size() == 2 && phase_.stores[1].value > phase_.stores[0].value;
    const package::Store& d = phase_.stores[second ? 1 : 0];
    const package::Store* aux = phase_.stores.size() == 2 ? &phase_.stores[second ? 0 : 1] : nullptr;
    m_.config.a_dtype = shape_.a;
    m_.config.b_dtype = shape_.b;
    m_.config.accumulator = shape_.accumulator;
    m_.config.math = math();
    m_.config.d = static_cast<int32_t>(d.operand);
    m_.d = p_.operands[d.operand].dtype;
    m_.bias = m_.aux = m_.d;
    if (!stores_rows(d.operand)) return fail("D is not stored row by row, an element for each of the product");
    uint32_t value = activation(d.value, aux);
    if (!m_.obstacle.empty()) return m_;
    if (aux != nullptr) {
      if (m_.config.activation != Activation::Gelu || aux->value != value)
        return fail("the second matrix is not what gelu(approximate=\"tanh\") is taken of");
      if (!stores_rows(aux->operand) || p_.operands[aux->operand].dtype != m_.d)
        return fail("the second matrix does not lie as D does, in D's type");
      m_.config.aux = static_cast<int32_t>(aux->operand);
    }
    value = without_bias(value);
    value = without_c(value);
    if (m_.obstacle.empty() && !scaled_accumulator(value)) return fail_at(value);
    if (m_.obstacle.empty() && m_.config.activation == Activation::Dgelu && (m_.config.c >= 0 || m_.config.bias >= 0))
      return fail("with the derivative of gelu the library adds neither C nor a bias");
    return m_;
  }

 private:
  VendorMatch& fail(std::string why) {
    if (m_.obstacle.empty()) m_.obstacle = fmt::format("{}; {}", why, menu_text);
    return m_;
  }
  VendorMatch& fail_at(uint32_t value) {
    const Inst& inst = phase_.insts[value];
    if (inst.kind == Inst::Kind::Op && inst.op == Op::gelu_erf)
      return fail("gelu is in its erf form, which the library does not compute");
    return fail(fmt::format("\"{}\" is not on it", package::line_of(p_, phase_, value)));
  }
  [[nodiscard]] const Inst& inst(uint32_t value) const { return phase_.insts[value]; }
  [[nodiscard]] bool is_op(uint32_t value, Op op) const {
    return inst(value).kind == Inst::Kind::Op && inst(value).op == op && inst(value).type == shape_.accumulator;
  }
  // Row by row: element [batch, row, col] of the matrix, columns adjacent.
  [[nodiscard]] bool plain(uint32_t index, Access access, bool row, bool col) const {
    const Operand& operand = p_.operands[index];
    if (operand.access != access || !operand.offsets.empty() || !operand.gathered.empty()) return false;
    bool seen[3] = {};
    for (const package::IndexTerm& term : operand.terms) {
      const auto axis = static_cast<size_t>(term.axis);
      const uint8_t dim = term.axis == package::Axis::Col ? 0 : term.axis == package::Axis::Row ? 1 : 2;
      if (term.div != 1 || term.mod != 0 || term.dim != dim || !(term.scale == types::Dim::constant(1)) || seen[axis])
        return false;
      seen[axis] = true;
    }
    return seen[1] == row && seen[2] == col && (!col || operand.unit_stride);
  }
  [[nodiscard]] bool rows(uint32_t operand) const { return plain(operand, Access::Full, true, true); }
  // Written once for each element: no item of a batch writes what another does.
  [[nodiscard]] bool stores_rows(uint32_t operand) const {
    const auto& terms = p_.operands[operand].terms;
    return rows(operand) && (shape_.batch == 1 || std::any_of(terms.begin(), terms.end(), [](const auto& term) {
                               return term.axis == package::Axis::Batch;
                             }));
  }
  [[nodiscard]] bool loads(uint32_t value, Access access, bool row, bool col) const {
    return inst(value).kind == Inst::Kind::Load && plain(inst(value).index, access, row, col);
  }
  [[nodiscard]] MathMode math() const {
    if (shape_.a == DType::f32) return shape_.math == MathMode::Tf32 ? MathMode::Tf32 : MathMode::Strict;
    return product_rounding(shape_.math, shape_.a, shape_.b).each > 0 ? shape_.math : MathMode::Strict;
  }

  // Peels the activation; the value below it.
  uint32_t activation(uint32_t value, const package::Store* aux) {
    const Inst& top = inst(value);
    if (top.kind != Inst::Kind::Op || shape_.accumulator != DType::f32) return value;
    if (top.op == Op::gelu_tanh) {
      if (!traits_.gelu_is_exact) fail(inexact);
      m_.config.activation = Activation::Gelu;
      return top.in[0];
    }
    if (top.op == Op::relu) {
      if (types::byte_size(shape_.a) != 2 || !traits_.relu_keeps_nan)
        fail("relu of NaN is NaN, and kernels of the library are known that give 0");
      m_.config.activation = Activation::Relu;
      return top.in[0];
    }
    if (top.op != Op::mul || aux != nullptr) return value;
    for (const int side : {0, 1}) {
      const Inst& derivative = inst(top.in[side]);
      if (derivative.kind != Inst::Kind::Op || derivative.op != Op::dgelu_tanh) continue;
      if (!loads(derivative.in[0], Access::Full, true, true)) continue;
      if (!traits_.gelu_is_exact) fail(inexact);
      m_.config.activation = Activation::Dgelu;
      m_.config.aux = static_cast<int32_t>(inst(derivative.in[0]).index);
      m_.aux = p_.operands[inst(derivative.in[0]).index].dtype;
      if (m_.aux != m_.d) fail("the derivative's matrix is not of D's type");
      return top.in[1 - side];
    }
    return value;
  }

  // value = rest + bias, added last.
  uint32_t without_bias(uint32_t value) {
    const Inst& sum = inst(value);
    if (is_op(value, Op::multiply_add) && loads(sum.in[2], Access::Row, false, true)) {
      // x * y + bias: the product is of what is left.
      if (!factor_pair(sum.in[0], sum.in[1])) return value;
      set_bias(sum.in[2]);
      done_ = true;
      return value;
    }
    if (!is_op(value, Op::add)) return value;
    for (const int side : {0, 1}) {
      const uint32_t operand = sum.in[side];
      if (inst(operand).kind == Inst::Kind::Load && p_.operands[inst(operand).index].access == Access::Column)
        fail("a bias along M is not added, only one along N");
      if (!loads(operand, Access::Row, false, true)) continue;
      set_bias(operand);
      return sum.in[1 - side];
    }
    return value;
  }
  void set_bias(uint32_t value) {
    m_.config.bias = static_cast<int32_t>(inst(value).index);
    m_.bias = p_.operands[inst(value).index].dtype;
  }

  // value = rest + beta * C.
  uint32_t without_c(uint32_t value) {
    if (done_) return value;
    const Inst& sum = inst(value);
    if (is_op(value, Op::multiply_add)) {
      if (take_c(sum.in[2]) && factor_pair(sum.in[0], sum.in[1])) {
        done_ = true;
        return value;
      }
      if (m_.config.c < 0 && (take_c(sum.in[0], sum.in[1]) || take_c(sum.in[1], sum.in[0]))) return sum.in[2];
      return value;
    }
    if (!is_op(value, Op::add)) return value;
    if (take_c(sum.in[0])) return sum.in[1];
    if (take_c(sum.in[1])) return sum.in[0];
    return value;
  }
  // C, or C * beta.
  bool take_c(uint32_t value) {
    if (loads(value, Access::Full, true, true)) return set_c(value) && (m_.config.beta = 1, true);
    const Inst& product = inst(value);
    if (!is_op(value, Op::mul)) return false;
    return take_c(product.in[0], product.in[1]) || take_c(product.in[1], product.in[0]);
  }
  bool take_c(uint32_t matrix, uint32_t factor) {
    if (!loads(matrix, Access::Full, true, true)) return false;
    double literal = 1;
    int32_t argument = -1;
    if (!is_factor(factor, literal, argument) || !set_c(matrix)) return false;
    m_.config.beta = literal;
    m_.config.beta_argument = argument;
    return true;
  }
  bool set_c(uint32_t value) {
    const uint32_t operand = inst(value).index;
    if (p_.operands[operand].dtype != m_.d) {
      fail("C is not of D's type");
      return false;
    }
    m_.config.c = static_cast<int32_t>(operand);
    return true;
  }

  // A number that is not 0: times 0 the library does not read the other factor, and NaN times 0 is NaN.
  bool is_factor(uint32_t value, double& literal, int32_t& argument) {
    const Inst& factor = inst(value);
    if (factor.type != shape_.accumulator || shape_.accumulator == DType::i32) return false;
    if (factor.kind == Inst::Kind::Literal) {
      literal = factor.type == DType::f64
                    ? std::bit_cast<double>(factor.bits)
                    : static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(factor.bits)));
      if (literal == 0) fail("times 0 the library does not read the other factor");
      return literal != 0;
    }
    if (factor.kind != Inst::Kind::Scalar) return false;
    const package::Argument& scalar = p_.arguments[factor.index];
    const auto& known = shape_.nonzero_scalars;
    if (std::find(known.begin(), known.end(), scalar.name) == known.end()) {
      fail(fmt::format("{} is 0 or unknown, and times 0 the library does not read the other factor", scalar.name));
      return false;
    }
    argument = static_cast<int32_t>(factor.index);
    return true;
  }
  bool factor_pair(uint32_t left, uint32_t right) { return scaled(left, right) || scaled(right, left); }
  bool scaled(uint32_t accumulator, uint32_t factor) {
    if (inst(accumulator).kind != Inst::Kind::Accumulator) {
      return fp8() && is_scale(factor) && is_op(accumulator, Op::mul) && scaled_accumulator(accumulator);
    }
    if (fp8() && is_scale(factor)) return true;
    if (fp8() && is_op(factor, Op::mul)) return is_scale(inst(factor).in[0]) && is_scale(inst(factor).in[1]);
    return is_factor(factor, m_.config.alpha, m_.config.alpha_argument);
  }
  [[nodiscard]] bool fp8() const { return shape_.a == DType::f8e4m3 || shape_.a == DType::f8e5m2; }
  // One f32 in device memory for all: the first that is met is taken for A's, the second for B's; only their product
  // matters.
  bool is_scale(uint32_t value) {
    if (!loads(value, Access::Scalar, false, false)) return false;
    const uint32_t operand = inst(value).index;
    if (p_.operands[operand].dtype != DType::f32 || !p_.operands[operand].terms.empty()) return false;
    int32_t& place = m_.config.scale_a < 0 ? m_.config.scale_a : m_.config.scale_b;
    if (place >= 0) return false;
    place = static_cast<int32_t>(operand);
    return true;
  }
  bool scaled_accumulator(uint32_t value) {
    if (done_ || inst(value).kind == Inst::Kind::Accumulator) return true;
    return is_op(value, Op::mul) && factor_pair(inst(value).in[0], inst(value).in[1]);
  }

  const EpilogueProgram& p_;
  const GemmShape& shape_;
  const VendorTraits& traits_;
  const package::Phase& phase_;
  VendorMatch m_;
  bool done_ = false;  // what a multiply_add adds to has been taken as the scaled accumulator
};

}  // namespace

VendorMatch match_vendor(const EpilogueProgram& epilogue, const GemmShape& shape, const VendorTraits& traits) {
  return Matcher(epilogue, shape, traits).match();
}

}  // namespace codetta::plan
