// SPDX-License-Identifier: Apache-2.0
#include "cli/program_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include <nlohmann/json.hpp>

#include "cli/crash.hpp"
#include "cli/on_device.hpp"
#include "codetta/contents.hpp"

namespace codetta::cli {
namespace {

constexpr int64_t size_not_said = 16;
// Of the terms that a product sums: what a bound says of products behind products is worth nothing when each makes it
// larger by the sum of all weights of a column.
constexpr int64_t kept_terms = 8;

template <class T>
void wrap_as(const TensorView& view, int64_t limit, int64_t least) {
  T* const data = view.as<T>();
  for (int64_t i = 0; i < view.element_count(); ++i) {
    const auto value = static_cast<int64_t>(data[i]) % (limit - least);
    data[i] = static_cast<T>(least + (value < 0 ? value + limit - least : value));
  }
}

// Brings integers, row-major, into [least, limit).
void wrap(const TensorView& view, int64_t limit, int64_t least) {
  switch (view.dtype()) {
    case i8:
      return wrap_as<int8_t>(view, limit, least);
    case i16:
      return wrap_as<int16_t>(view, limit, least);
    case i32:
      return wrap_as<int32_t>(view, limit, least);
    case i64:
      return wrap_as<int64_t>(view, limit, least);
    case u8:
      return wrap_as<uint8_t>(view, limit, least);
    case u16:
      return wrap_as<uint16_t>(view, limit, least);
    case u32:
      return wrap_as<uint32_t>(view, limit, least);
    case u64:
      return wrap_as<uint64_t>(view, limit, least);
    default:
      return;
  }
}

bool is_float(DType dtype) {
  return dtype == f32 || dtype == f64 || dtype == f16 || dtype == bf16 || dtype == f8e4m3 || dtype == f8e5m2;
}

Result<ArgumentValue> random_number(const ProgramInput& input, uint64_t seed) {
  if (input.dtype == boolean) return ArgumentValue(true);
  auto one = Tensor::make(is_float(input.dtype) ? f32 : i8, {1});
  if (!one) return std::move(one).error();
  fill_random(one->view(), seed);
  if (is_float(input.dtype)) return ArgumentValue(static_cast<double>(*one->view().as<float>()));
  const int64_t number{*one->view().as<int8_t>() & 0x7F};
  if (input.index_limit == 0) return ArgumentValue(number);
  return ArgumentValue(input.index_least + number % (input.index_limit - input.index_least));
}

// Row-major elements of which one in `ways` stays and the others become 0.
void thin(const TensorView& view, int64_t ways, uint64_t seed) {
  const auto bytes = static_cast<size_t>(dtype_size(view.dtype()));
  std::mt19937_64 random(seed);
  auto* element = view.as<std::byte>();
  for (int64_t i = 0; i < view.element_count(); ++i, element += bytes) {
    if (random() % static_cast<uint64_t>(ways) != 0) std::memset(element, 0, bytes);
  }
}

// A copy with the same strides.
Result<std::pair<Tensor, TensorView>> copy_of(const TensorView& view) {
  const auto [begin, end] = view.byte_range();
  auto memory = Tensor::make(u8, {end - begin});
  if (!memory) return std::move(memory).error();
  auto* const to = memory->view().as<std::byte>();
  if (end != begin) std::memcpy(to, begin, static_cast<size_t>(end - begin));
  const auto* const first = static_cast<const std::byte*>(view.data());
  auto copy = TensorView::make(view.empty() ? to : to + (first - begin), view.dtype(), view.shape(), view.strides());
  if (!copy) return std::move(copy).error();
  return std::pair(*std::move(memory), *copy);
}

// The tensor of this name becomes its part of this shape.
Result<void> narrow(std::vector<NamedArgument>& arguments, const std::string& name, const Dims& shape) {
  for (NamedArgument& argument : arguments) {
    if (argument.name != name) continue;
    const TensorView& whole = *argument.value.tensor();
    auto part = TensorView::make(whole.data(), whole.dtype(), shape, whole.strides());
    if (!part) return std::move(part).error();
    argument = {name, *part};
  }
  return {};
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Result<void> add_random(const Program& program, const Sizes& sizes, uint64_t seed, ProgramData& data) {
  auto missing = program.missing(data.arguments, sizes, size_not_said);
  if (!missing) return std::move(missing).error();
  for (const ProgramInput& input : *missing) {
    const uint64_t own_seed = seed * 1000 + data.arguments.size();
    if (input.is_number) {
      auto number = random_number(input, own_seed);
      if (!number) return std::move(number).error();
      data.arguments.push_back({input.name, *number});
      continue;
    }
    auto tensor = Tensor::make(input.dtype, input.shape);
    if (!tensor) return std::move(tensor).error();
    const int64_t terms = std::min(input.terms, kept_terms);
    fill_random(tensor->view(), own_seed, Distribution::Normal,
                terms > 0 ? 1 / std::sqrt(static_cast<double>(terms)) : 1);
    if (input.terms > kept_terms) thin(tensor->view(), input.terms / kept_terms, own_seed);
    if (input.index_limit > 0) wrap(tensor->view(), input.index_limit, input.index_least);
    data.owned.push_back(*std::move(tensor));
    data.arguments.push_back({input.name, data.owned.back().view()});
  }
  return {};
}

Result<void> add_outputs(const Program& program, const Sizes& sizes, ProgramData& data) {
  auto shapes = program.shapes(data.arguments);
  if (!shapes) return std::move(shapes).error();
  data.shapes = *std::move(shapes);
  for (const ProgramShapes::Output& output : data.shapes.outputs) {
    Dims shape = output.shape;
    for (int d = 0; d < shape.rank(); ++d) {
      if (!output.computed(d)) continue;
      const auto asked = std::find_if(sizes.begin(), sizes.end(), [&](const auto& size) {
        return size.first == output.rooms[static_cast<size_t>(d)];
      });
      if (asked != sizes.end() || shape[d] == 0) shape[d] = asked != sizes.end() ? asked->second : size_not_said;
    }
    auto tensor = Tensor::make(output.dtype, shape);
    if (!tensor) return std::move(tensor).error();
    fill_poison(tensor->view());
    data.owned.push_back(*std::move(tensor));
    data.arguments.push_back({output.name, data.owned.back().view()});
  }
  return {};
}

Result<ProgramData> copies_of_donated(const Program& program, const ProgramData& data) {
  ProgramData copies;
  for (const ProgramParameter& parameter : program.parameters()) {
    if (!parameter.donated) continue;
    for (const NamedArgument& argument : data.arguments) {
      if (argument.name != parameter.name) continue;
      auto copy = copy_of(*argument.value.tensor());
      if (!copy) return std::move(copy).error();
      copies.owned.push_back(std::move(copy->first));
      copies.arguments.push_back({argument.name, copy->second});
    }
  }
  return copies;
}

Result<ProgramRun::Done> ProgramRun::operator()(ProgramData& data) const {
  Done done;
  const auto start = std::chrono::steady_clock::now();
  std::optional<Device> device;
  std::optional<OnDevice> copies;
  if (on_gpu(target)) {
    auto opened = Device::open(target.backend, context);
    if (!opened) return std::move(opened).error();
    device = *std::move(opened);
    auto made = OnDevice::make(program, data.shapes, target.backend, context, data.arguments);
    if (!made) return std::move(made).error();
    copies = *std::move(made);
  }
  std::vector<NamedArgument> arguments = copies ? copies->named() : data.arguments;
  // What a check reads: a run leaves anything in donated tensors.
  ProgramData before;
  if (check) {
    auto copied = copies_of_donated(program, data);
    if (!copied) return std::move(copied).error();
    before = *std::move(copied);
  }
  std::optional<OnDevice> former;
  if (device && !before.arguments.empty()) {
    auto made = OnDevice::make(program, data.shapes, target.backend, context, before.arguments);
    if (!made) return std::move(made).error();
    former = *std::move(made);
  }
  RunOptions how;
  KeptResults kept;
  how.observer = check && user_kernels ? keep_results(kept, observer) : observer;
  how.observed = check && user_kernels ? std::max(observed, Observed::results) : observed;
  how.graph = graph;
  std::optional<CrashTold> crashes;
  if (user_kernels && !device) {
    crashes.emplace(crash_help, json);
    how.starting = [&crashes](const StepRecord& step) { return crashes->starting(step); };
  }
  auto execution = compiled.prepare(arguments, how);
  if (!execution) return std::move(execution).error();
  done.prepare_ms = milliseconds_since(start);
  done.interpreted = execution->interpreted();
  done.workspace_bytes = execution->workspace_size();
  done.kernels = execution->kernels();
  const auto running = std::chrono::steady_clock::now();
  if (crashes) crashes->run_begins();
  const auto ran = execution->run();
  if (crashes) crashes->run_ended();
  if (!ran) return ran.error();
  if (device) {
    if (auto finished = device->synchronize(); !finished) return std::move(finished).error();
  }
  if (auto fine = check_contents(*execution); !fine) return std::move(fine).error();
  done.run_ms = milliseconds_since(running);
  for (const ProgramShapes::Output& output : data.shapes.outputs) {
    if (!copies) break;
    if (auto copied = copies->download(output.name); !copied) return std::move(copied).error();
  }
  for (const ProgramShapes::Output& output : data.shapes.outputs) {
    const bool whole =
        std::all_of(output.rooms.begin(), output.rooms.end(), [](const auto& room) { return room.empty(); });
    if (whole) continue;
    auto filled = execution->output_shape(output.name);
    if (!filled) return std::move(filled).error();
    for (std::vector<NamedArgument>* list : {&arguments, &data.arguments}) {
      if (auto ok = narrow(*list, output.name, *filled); !ok) return std::move(ok).error();
    }
  }
  if (!check) return done;
  VerifyOptions wanted;
  wanted.seed = seed;
  wanted.poisoned = true;
  wanted.given = kept.calls;
  for (const NamedArgument& argument : former ? former->named() : before.arguments)
    wanted.before.emplace_back(argument.name, *argument.value.tensor());
  auto checked = verify(program, arguments, target, wanted, context);
  if (!checked) return std::move(checked).error();
  done.checked = *std::move(checked);
  return done;
}

Result<std::optional<ProgramRun::Smaller>> ProgramRun::smaller(const ProgramData& data) const {
  constexpr int64_t first = 64;
  int64_t largest = 0;
  for (const auto& [name, size] : data.shapes.symbols) largest = std::max(largest, size);
  std::vector<int64_t> bounds;
  for (int64_t most = first; most > 0; most /= 2) bounds.push_back(most);
  for (int64_t most = first * 2; most < largest; most *= 2) bounds.push_back(most);
  std::vector<Sizes> tried{data.shapes.symbols};
  for (const int64_t most : bounds) {
    Sizes sizes = data.shapes.symbols;
    for (auto& [name, size] : sizes) size = std::min(size, most);
    if (std::find(tried.begin(), tried.end(), sizes) != tried.end()) continue;
    tried.push_back(sizes);
    ProgramData less;
    for (const NamedArgument& argument : data.arguments) {
      if (argument.value.tensor() == nullptr) less.arguments.push_back(argument);
    }
    // The program may have no such sizes: f32["n - 100"] of n = 64.
    if (!add_random(program, sizes, seed, less) || !add_outputs(program, {}, less)) continue;
    ProgramRun unwatched = *this;
    unwatched.observer = {};
    auto done = unwatched(less);
    if (!done) return std::move(done).error();
    if (!leaves_out(*done->checked)) return std::optional<Smaller>({std::move(sizes), *std::move(done->checked)});
  }
  return std::optional<Smaller>();
}

bool leaves_out(const VerifyReport& report) {
  return std::any_of(report.outputs.begin(), report.outputs.end(),
                     [](const OutputCheck& output) { return output.checked == 0 && output.total != 0; });
}

std::string sizes_text(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) text += (text.empty() ? "" : ", ") + name + " = " + std::to_string(size);
  return text;
}

std::string check_json(const VerifyReport& report) {
  nlohmann::json outputs = nlohmann::json::array();
  for (const OutputCheck& o : report.outputs) {
    outputs.push_back({{"name", o.name},
                       {"checked", o.checked},
                       {"total", o.total},
                       {"wrong", o.wrong},
                       {"ambiguous", o.ambiguous},
                       {"max_error", o.max_error},
                       {"max_error_ratio", o.max_error_ratio},
                       {"note", o.note},
                       {"mistrust", o.mistrust}});
  }
  static constexpr const char* verdicts[] = {"pass", "fail", "mistrusted"};
  const nlohmann::json json{
      {"verdict", verdicts[static_cast<size_t>(report.verdict)]}, {"outputs", outputs}, {"given", report.given}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace codetta::cli
