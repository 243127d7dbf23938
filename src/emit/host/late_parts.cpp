// SPDX-License-Identifier: Apache-2.0
#include "emit/host/late_parts.hpp"

#include <algorithm>
#include <utility>

#include "emit/host/signature.hpp"
#include "emit/host/text.hpp"
#include "package/factors.hpp"

namespace codetta::emit::host {

using base::CodeWriter;

LateParts::LateParts(CodeWriter& out, const package::Package& package, std::string frame_type, bool divided)
    : out_(out), package_(package), frame_type_(std::move(frame_type)), divided_(divided) {
  for (std::string& symbol : computed_inside(package)) inner_.insert(std::move(symbol));
  for (std::string& symbol : computed_sizes(package)) {
    if (inner_.count(symbol) == 0) late_.insert(std::move(symbol));
  }
}

bool LateParts::comes_first(const package::Step& step) {
  const auto* define = std::get_if<package::DefineSymbol>(&step);
  const bool lists = std::holds_alternative<package::If>(step) || std::holds_alternative<package::While>(step);
  const bool late = define != nullptr ? late_.count(define->symbol) != 0 : lists && !inner_.empty();
  return late && std::exchange(is_ahead_, false);
}

void LateParts::look_at_factors(const std::function<void(uint32_t)>& print_fits) {
  const auto look = [&](const package::StepList& list) {
    for (const package::Step& one : list) {
      const auto* launch = std::get_if<package::LaunchKernel>(&one);
      if (launch != nullptr && launch->product) look_at_factors(*launch, print_fits);
    }
  };
  look(package_.steps);
  for (const package::StepList& list : package_.step_lists) look(list);
}

void LateParts::look_at_factors(const package::LaunchKernel& launch, const std::function<void(uint32_t)>& print_fits) {
  // Of an output whose sizes are still to be computed nothing can be said.
  const auto is_known = [this](uint32_t b) {
    const std::vector<types::Dim>& shape = package_.buffers[b].shape;
    return std::all_of(shape.begin(), shape.end(), [this](const types::Dim& size) {
      const std::vector<std::string> symbols = size.symbols();
      return std::all_of(symbols.begin(), symbols.end(),
                         [this](const std::string& symbol) { return known_.count(symbol) != 0; });
    });
  };
  const auto name_of = [this](uint32_t b) { return literal_text(package_.buffers[b].name); };
  for (const package::DimsAsOne& dims : package::dims_as_one(package_, launch)) {
    const std::string text = CodeWriter::text_of("check_as_one(v[", dims.buffer, "], ", int{dims.last}, ", ",
                                                 dims.count, ", ", name_of(dims.buffer), ")");
    if (!is_known(dims.buffer) || !looked_.insert(text).second) continue;
    print_fits(dims.buffer);
    out_.line("if (!frame.running) CODETTA_OK(", text, ");");
  }
  std::vector<uint32_t> several;  // with more than one leading dim
  std::string all;
  for (const uint32_t b : package::factors_read(package_, launch)) {
    const package::Buffer& buffer = package_.buffers[b];
    const bool of_caller =
        buffer.role == package::Buffer::Role::Argument || buffer.role == package::Buffer::Role::Output;
    const bool seen = !(b == launch.product->a ? launch.product->a_view : launch.product->b_view).empty();
    if (!of_caller || seen || package::leading_dims(buffer.shape).size() < 2 || !is_known(b)) continue;
    several.push_back(b);
    all += CodeWriter::text_of(b, ", ");
  }
  if (several.empty() || !looked_.insert(all).second) return;
  for (const uint32_t b : several) print_fits(b);
  const auto scope = out_.block("if (!frame.running)");
  out_.line("i64 inner = 0;");
  for (const uint32_t b : several) out_.line("CODETTA_OK(check_even(v[", b, "], ", name_of(b), ", inner));");
}

void LateParts::wait(bool inside, const std::set<uint32_t>& fitted) {
  if (inside) {
    inside_.push_back({out_.block("if (frame.running)"), fitted});
  } else {
    out_.line("if (!frame.running) return ok;");
  }
}

void LateParts::open() {
  if (divided_) {
    out_.line("s.part_", parts_.size(), " = &frame;");
  } else {
    out_.line("[[maybe_unused]] auto& part_", parts_.size(), " = frame;");
  }
  parts_.emplace_back(
      out_.block_with("};", "const auto rest_", parts_.size() + 1, " = [&](", frame_type_, "& frame) -> Status"));
  most_ = std::max(most_, parts_.size());
  out_.line(several() ? "begin_devices(frame);" : "frame.placed = 0;");
}

// Runs the function of a part, which ends here.
std::string LateParts::run_text(size_t part) const {
  const std::string rest = CodeWriter::text_of("run_rest(frame, rest_", part + 1, ")");
  const std::string spent = frame_type_ != "Frame" && part == 0 ? runs_once(package_) : std::string();
  return spent.empty() ? rest : CodeWriter::text_of("begun(", rest, ", ", spent, ")");
}

void LateParts::close(size_t outer, std::set<uint32_t>& fitted) {
  while (inside_.size() > outer) {
    out_.line("return ok;");
    parts_.pop_back();
    out_.line("CODETTA_OK(", run_text(parts_.size()), ");");
    fitted = std::move(inside_.back().fitted);
    inside_.pop_back();
  }
  at_once_ = false;
}

void LateParts::close_all() {
  end_function(0);
  parts_.clear();
}

void LateParts::end_function(size_t outer) {
  for (size_t part = parts_.size(); part > outer; --part) {
    if (!parts_[part - 1]) continue;
    parts_[part - 1].reset();
    out_.line("return ", run_text(part - 1), ";");
  }
}

// A branch or a loop may be still to compute them.
bool LateParts::has_bytes(const package::Pool& pool) const {
  if (pool.bytes.is_constant()) return true;
  const std::vector<std::string> symbols = pool.bytes.symbols();
  return std::none_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) {
    return inner_.count(symbol) != 0 && known_.count(symbol) == 0;
  });
}

void LateParts::place_used(const package::Step& step, const std::function<void(uint32_t)>& place) {
  if (const auto* allocate = std::get_if<package::AllocateFromPool>(&step)) {
    if (has_bytes(package_.pools[allocate->pool]) && part_of_pool_.emplace(allocate->pool, parts_.size()).second)
      place(allocate->pool);
    return;
  }
  std::vector<uint32_t> lists;
  if (const auto* branch = std::get_if<package::If>(&step)) lists = {branch->then_list, branch->else_list};
  if (const auto* loop = std::get_if<package::While>(&step)) lists = {loop->condition, loop->body};
  for (const uint32_t list : lists) {
    for (const package::Step& inner : package_.step_lists[list]) place_used(inner, place);
  }
}

std::string LateParts::frame_of(uint32_t pool) const {
  const auto home = part_of_pool_.find(pool);
  const bool earlier = home != part_of_pool_.end() && home->second != parts_.size();
  if (!earlier) return "frame";
  const std::string name =
      divided_ ? CodeWriter::text_of("(*s.part_", home->second, ")") : CodeWriter::text_of("part_", home->second);
  return several() ? CodeWriter::text_of(name, ".of(", package_.pools[pool].device, ")") : name;
}

}  // namespace codetta::emit::host
